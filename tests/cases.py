"""Where each report of what goes wrong for others is tested here, by its number.

A line names the tests that would fail if it went wrong for our users: a file, and a test in it.
"""

CASES: dict[str, tuple[str, ...]] = {
    # The server, the host and what is measured
    "O-01": (  # a swept flag that the installed server has not
        "tests/orchestrator/test_host_check.py::"
        "test_an_axis_that_the_host_lacks_stops_the_sweep_before_trial_1",
        "tests/infra/sglang/test_flags.py::"
        "test_a_neutral_name_is_refused_by_a_host_with_neither_spelling",
        "tests/infra/sglang/test_parsers.py::test_the_table_and_the_parser_say_the_same",
    ),
    "O-02": (  # starts well and dies at the first request
        "tests/infra/sglang/test_joint_rules.py::test_one_configuration_breaks_it_and_one_does_not",
        "tests/orchestrator/test_starting.py::"
        "test_an_emulated_server_that_dies_is_named_by_its_phase",
    ),
    "O-03": (  # the documented default is not the real one
        "tests/orchestrator/test_effects_of_servers.py::"
        "test_requested_and_effective_are_both_on_record_and_differ_visibly",
        "tests/sweeps/test_pins.py::test_an_export_holds_pins_and_what_the_server_chose_and_warns",
    ),
    "O-04": (  # settings that only make sense together
        "tests/orchestrator/search/test_study.py::"
        "test_plain_comes_first_then_new_configurations_that_obey_the_rules",
        "tests/infra/sglang/test_joint_rules.py::"
        "test_each_rule_has_its_examples_and_names_settings_that_exist",
    ),
    "O-05": (  # the server dies under measurement
        "tests/orchestrator/test_trial.py::test_faults_of_a_server_are_named",
        "tests/orchestrator/test_sick_servers.py::"
        "test_a_server_that_breaks_in_the_middle_is_not_ranked",
        "tests/orchestrator/test_sick_servers.py::"
        "test_a_sweep_does_not_end_with_a_winner_that_broke",
        "tests/e2e/test_real_sglang.py::"
        "test_a_scheduler_that_is_killed_ends_its_trial_as_failed_and_leaves_nothing",
    ),
    "O-06": (  # speculation that does nothing
        "tests/orchestrator/test_effects_of_servers.py::"
        "test_speculation_that_accepts_nothing_is_marked_inactive",
        "tests/sweeps/test_effects.py::test_speculation_without_accepted_drafts_is_inactive",
    ),
    "O-07": (  # slower than plain decode under load
        "tests/sweeps/test_crossover.py::"
        "test_each_load_has_its_winner_and_speculation_stops_paying_somewhere",
        "tests/sweeps/test_effects.py::"
        "test_slower_than_plain_decode_is_said_in_plain_words_where_the_intervals_show_it",
    ),
    "O-08": (  # limits that change with the algorithm
        "tests/orchestrator/test_effects_of_servers.py::"
        "test_the_hidden_limit_of_speculation_is_seen_and_pins_remove_it",
        "tests/sweeps/test_effects.py::test_more_streams_than_the_server_runs_are_queue_bound",
    ),
    "O-09": (  # a value that fails on every host of a kind
        "tests/orchestrator/test_effects_of_servers.py::"
        "test_three_capture_failures_close_a_value_for_its_host",
        "tests/sweeps/test_closing.py::"
        "test_a_value_that_failed_three_of_three_times_is_closed_and_said_so",
    ),
    "O-10": (  # a start that hangs
        "tests/orchestrator/test_starting.py::test_a_silent_phase_is_hung_at_its_deadline_by_name",
        "tests/orchestrator/test_trial.py::test_faults_of_a_server_are_named",
    ),
    "O-11": (  # healthy too early
        "tests/orchestrator/test_starting.py::test_readiness_takes_health_and_a_token",
    ),
    "O-12": (  # schedulers that outlive their root
        "tests/infra/test_guard.py::test_tree_ends",
        "tests/infra/test_guard.py::test_tree_ends_with_its_owner",
        "tests/infra/test_leftovers.py::"
        "test_when_driver_and_guard_are_killed_the_next_start_ends_the_rest",
    ),
    "O-13": (  # memory and ports come back late
        "tests/infra/test_clean_proof.py::test_an_emulated_host_that_releases_late_is_waited_for",
        "tests/infra/test_clean_proof.py::test_memory_that_never_comes_back_is_named",
        "tests/infra/test_clean_proof.py::test_a_port_that_stays_held_is_named_with_its_holder",
    ),
    "O-14": (  # ports that clash
        "tests/infra/test_host_lock.py::test_two_processes_never_get_the_same_port",
        "tests/orchestrator/test_starting.py::"
        "test_nothing_is_launched_where_something_answers_already",
        "tests/orchestrator/test_starting.py::"
        "test_the_health_of_another_program_on_the_port_proves_nothing",
    ),
    "O-15": (  # kernels still compile at the first requests
        "tests/sweeps/test_drift.py::test_the_alarm_is_seldom_false_and_hears_a_slow_warm_up",
    ),
    "O-16": (  # metrics under other names, or none
        "tests/contracts/test_server_fidelity.py::test_the_metrics_that_are_watched_exist",
        "tests/contracts/test_load_client.py::test_counts_are_the_servers",
    ),
    "O-17": (  # a cumulative stream taken for deltas
        "tests/contracts/test_load_client.py::test_counts_are_the_servers",
        "tests/contracts/test_stream_faults.py::"
        "test_tokens_are_the_servers_count_whatever_the_text_repeats",
    ),
    "O-18": (  # time per chunk taken for time per token
        "tests/sweeps/test_latencies.py::test_tpot_is_time_per_token_not_per_chunk",
        "tests/contracts/test_stream_faults.py::test_several_tokens_a_chunk_are_several_tokens",
    ),
    "O-19": (  # out of memory at capture
        "tests/infra/emulated/test_life.py::test_memory_runs_out_while_graphs_are_captured",
        "tests/infra/sglang/test_signatures.py::test_recognises",
        "tests/infra/sglang/test_signatures.py::test_is_not_fooled",
    ),
    "O-20": (  # the root lives and a worker is dead
        "tests/orchestrator/test_starting.py::"
        "test_a_worker_that_is_killed_while_loading_is_missed_where_the_root_waits_on",
        "tests/orchestrator/test_starting.py::"
        "test_a_worker_that_is_killed_while_serving_is_told_after_its_grace",
    ),
    "O-21": (  # long prompts are slower than plain decode
        "tests/sweeps/test_effects.py::test_one_slow_class_of_prompts_is_named",
        "tests/sweeps/test_metrics.py::"
        "test_rates_are_told_for_each_length_of_prompt_that_there_was",
    ),
    "O-22": (  # health says 200 while the engine is frozen
        "tests/contracts/test_stream_faults.py::"
        "test_a_server_that_freezes_under_way_keeps_what_came_before",
        "tests/contracts/test_load_client.py::test_a_probe_wants_a_token_in_time",
    ),
    "O-23": (  # repeated prompts measure the prefix cache
        "tests/sweeps/test_workloads.py::test_no_two_passes_share_a_prompt_and_none_repeats_one",
        "tests/contracts/test_stream_faults.py::test_hits_of_the_prefix_cache_are_told",
    ),
    "O-24": (  # a variable that the server overrides
        "tests/orchestrator/test_effects_of_servers.py::"
        "test_a_variable_that_the_server_overrides_is_an_axis_without_effect",
    ),
    "O-25": (  # one kind of text
        "tests/sweeps/test_prompt_sets.py::test_sets_share_no_prompt",
        "tests/infra/emulated/test_engine.py::test_the_best_width_moves_with_protocol_and_text",
    ),
    "O-26": (  # children of a killed worker
        "tests/e2e/test_kill_matrix.py::test_what_a_killed_driver_and_guard_leave_is_cleaned",
    ),
    "O-59": (  # an error inside a stream that began well
        "tests/contracts/test_stream_faults.py::test_a_fault_breaks_its_request_and_no_other",
    ),
    "O-60": (  # failed requests distort the figures
        "tests/contracts/test_stream_faults.py::test_a_few_refused_requests_are_counted_one_by_one",
        "tests/sweeps/test_latencies.py::test_failures_reach_the_high_percentiles_first",
    ),
    "O-61": (  # the client is what is slow
        "tests/contracts/test_load_client.py::test_the_client_watches_itself",
        "tests/sweeps/test_latencies.py::"
        "test_a_late_client_marks_percentiles_and_leaves_means_alone",
    ),
    "O-64": (  # the same configuration again
        "tests/orchestrator/search/test_study.py::test_it_ends_when_every_configuration_was_tried",
        "tests/orchestrator/search/test_study.py::"
        "test_what_acts_alike_is_tried_once_and_what_is_refused_never",
    ),
    "O-66": (  # importance with conditions
        "tests/sweeps/reporting/test_parts.py::"
        "test_importance_does_not_mix_algorithms_in_which_an_axis_does_not_exist",
        "tests/sweeps/reporting/test_parts.py::"
        "test_an_axis_that_exists_only_under_another_is_compared_where_it_exists",
        "tests/sweeps/reporting/test_page.py::test_before_the_first_trial_there_is_a_page",
    ),
    # Ray Tune and orchestration
    "O-27": (  # leaving the sweep leaves servers behind
        "tests/orchestrator/test_signals.py::test_the_first_signal_lets_a_sweep_end_cleanly",
        "tests/orchestrator/test_signals.py::test_the_second_ends_it_at_once",
        "tests/e2e/test_ray_sweep.py::test_an_interrupted_sweep_exits_130_and_keeps_the_cut_trial",
        "tests/e2e/test_ray_sweep.py::"
        "test_a_signal_while_ray_comes_up_ends_a_sweep_before_its_first_trial",
    ),
    "O-28": (  # parallel trials on the same GPUs
        "tests/infra/test_host_lock.py::"
        "test_a_gpu_that_another_sweep_has_is_refused_by_its_owners_name",
        "tests/orchestrator/test_serial_driver.py::test_two_hosts_work_at_the_same_time",
        "tests/infra/ssh/test_exclusive.py::test_a_second_sweep_is_refused_while_the_first_lives",
        "tests/orchestrator/test_host_locks.py::"
        "test_a_second_sweep_on_the_same_gpus_is_refused_by_its_owners_name",
    ),
    "O-29": (  # the baseline fails and the sweep goes on for ever
        "tests/sweeps/test_breaker.py::"
        "test_a_baseline_that_cannot_run_ends_the_sweep_at_once_with_its_reason",
        "tests/orchestrator/test_cli.py::test_a_sweep_without_a_valid_trial_exits_3",
    ),
    "O-30": (  # no GPU list inside the trial
        "tests/orchestrator/test_ray_driver.py::test_failing_hooks_never_end_a_sweep",
        "tests/e2e/test_cluster.py::"
        "test_the_nodes_of_a_cluster_that_is_there_are_used_and_left_as_they_were",
    ),
    "O-31": (  # trials stay pending without end
        "tests/e2e/test_cluster.py::test_a_lost_host_is_replaced_and_used_again",
        "tests/e2e/test_cluster.py::test_hosts_that_cannot_be_had_are_named_before_anything_starts",
        "tests/orchestrator/test_space_file.py::"
        "test_sglang_without_gpus_is_refused_with_the_way_out",
        "tests/orchestrator/test_ray_driver.py::test_a_trial_that_waits_for_a_lost_host_is_ended",
        "tests/orchestrator/test_cli.py::"
        "test_a_trial_that_no_host_can_take_is_refused_before_anything_starts",
    ),
    "O-32": (  # resume loses the searcher or repeats finished work
        "tests/orchestrator/search/test_study.py::"
        "test_a_resumed_search_repeats_nothing_and_takes_up_what_was_cut_off",
        "tests/orchestrator/test_rebuild.py::test_the_study_is_made_again_as_it_was",
        "tests/e2e/test_ray_sweep.py::test_a_driver_that_is_killed_twice_leaves_no_server_and_its_sweep_resumes",
        "tests/bench/test_faults.py::test_a_program_checks_and_prints_its_figures",
    ),
    "O-33": (  # NaN becomes the best
        "tests/sweeps/test_ranking.py::test_only_rates_take_part",
        "tests/sweeps/test_ranking.py::test_nothing_measured_ranks_nothing",
    ),
    "O-34": (  # a result lacks the metric
        "tests/orchestrator/search/test_study.py::"
        "test_a_measured_outcome_without_a_rate_is_a_failure_not_a_zero",
        "tests/orchestrator/test_serial_driver.py::"
        "test_a_fault_of_our_own_ends_a_trial_and_not_the_sweep",
    ),
    "O-35": (  # the file is named relatively, and imports a neighbour
        "tests/orchestrator/test_space_file.py::"
        "test_a_file_named_from_another_folder_finds_its_neighbours",
        "tests/orchestrator/test_cli.py::swept",
    ),
    "O-36": (  # conditional spaces
        "tests/orchestrator/search/test_study.py::"
        "test_plain_comes_first_then_new_configurations_that_obey_the_rules",
        "tests/orchestrator/search/test_study.py::"
        "test_the_file_keeps_every_proposal_with_its_parameters",
    ),
    # MLflow
    "O-37": (  # a plain folder as a store is refused
        "tests/orchestrator/tracking/test_tracking_uri.py::test_a_folder_is_one_clear_error",
        "tests/orchestrator/tracking/test_mlflow_writer.py::test_a_relative_store_is_refused",
    ),
    "O-38": (  # the database is locked
        "tests/orchestrator/tracking/test_mlflow_writer.py::test_a_blocked_store_blocks_nobody_else",
        "tests/orchestrator/tracking/test_mlflow_faults.py::"
        "test_a_reader_that_holds_a_lock_for_long_fails_nobody",
    ),
    "O-39": (  # a value is too long
        "tests/orchestrator/tracking/test_mlflow_faults.py::"
        "test_a_long_command_is_a_file_and_all_else_is_there",
    ),
    "O-40": (  # a parameter changes its value
        "tests/orchestrator/tracking/test_mlflow_writer.py::test_a_second_end_updates_the_run",
        "tests/orchestrator/tracking/test_mlflow_writer.py::"
        "test_four_trials_at_once_and_a_retry_are_five_runs",
        "tests/contracts/test_tracker.py::test_takes_calls_from_several_threads",
    ),
    "O-41": (  # a run stays RUNNING, or is shown FINISHED after a crash
        "tests/orchestrator/tracking/test_mlflow_writer.py::test_status_follows_the_outcome",
        "tests/orchestrator/tracking/test_mlflow_faults.py::"
        "test_what_a_killed_driver_told_is_sent_by_the_next_one_and_nothing_runs_on",
    ),
    "O-42": (  # nested runs are lost
        "tests/orchestrator/tracking/test_mlflow_writer.py::test_trials_stand_under_their_sweep",
    ),
    "O-43": (  # forbidden characters
        "tests/orchestrator/tracking/test_legal.py::"
        "test_two_names_never_become_one_whatever_their_order",
        "tests/orchestrator/tracking/test_mlflow_faults.py::"
        "test_any_name_of_a_metric_passes_and_the_original_is_kept",
    ),
    "O-44": (  # numbers that are none
        "tests/orchestrator/tracking/test_mlflow_writer.py::test_only_finite_numbers_are_sent",
    ),
    "O-45": (  # files fail while metrics work
        "tests/orchestrator/tracking/test_mlflow_faults.py::"
        "test_files_that_are_not_taken_cost_no_number",
        "tests/orchestrator/tracking/test_mlflow_faults.py::"
        "test_files_go_through_a_server_and_are_tried_beforehand",
    ),
    "O-46": (  # the server goes away
        "tests/orchestrator/tracking/test_writer_loop.py::"
        "test_an_outage_of_any_length_leaves_no_trace",
        "tests/orchestrator/tracking/test_mlflow_faults.py::"
        "test_a_server_that_hangs_delays_nobody_and_has_all_once_afterwards",
    ),
    # SSH
    "O-47": (  # a command that prints much hangs
        "tests/infra/ssh/test_remote.py::test_much_output_is_drained_from_both_streams",
        "tests/infra/ssh/test_remote.py::test_a_deadline_ends_the_command_there_as_well",
        "tests/infra/ssh/test_remote.py::test_a_stream_that_nobody_reads_does_not_hang_its_writer",
    ),
    "O-48": (  # a server there survives its driver
        "tests/orchestrator/remote/test_sweep_on_host.py::"
        "test_a_killed_driver_is_told_and_its_sweep_goes_on_until_it_is_stopped",
        "tests/infra/test_guard_over_ssh.py::"
        "test_a_network_that_falls_silent_ends_the_tree_by_its_lease",
        "tests/infra/test_guard_over_ssh.py::test_a_killed_driver_ends_the_remote_tree_at_once",
        "tests/infra/ssh/test_remote_host.py::"
        "test_a_lost_network_ends_the_server_and_the_host_is_proved_clean_afterwards",
        "tests/e2e/test_cluster.py::"
        "test_a_killed_driver_leaves_nothing_and_its_sweep_resumes_with_the_same_command",
    ),
    "O-49": (  # what was started there dies with the session
        "tests/orchestrator/remote/test_sweep_on_host.py::"
        "test_a_sweep_outlives_cut_links_and_its_follower_and_is_fetched_once",
        "tests/infra/ssh/test_remote.py::test_a_detached_program_outlives_the_connection",
        "tests/orchestrator/remote/test_launcher.py::"
        "test_a_command_begins_once_however_often_it_is_launched",
    ),
    "O-50": (  # no PATH, conda or pyenv there
        "tests/infra/ssh/test_remote.py::test_a_command_runs_without_a_shell_of_the_user",
        "tests/orchestrator/hosts/test_check_hosts.py::"
        "test_what_stands_in_the_way_is_told_host_by_host",
        "tests/orchestrator/remote/test_following.py::"
        "test_ours_missing_there_is_told_with_how_to_put_it",
        "tests/infra/ssh/test_remote.py::test_what_cannot_be_started_detached_is_an_error",
    ),
    "O-51": (  # an idle connection is dropped
        "tests/infra/ssh/test_remote.py::test_an_idle_connection_survives_a_short_cut",
        "tests/orchestrator/remote/test_sweep_on_host.py::"
        "test_a_sweep_outlives_cut_links_and_its_follower_and_is_fetched_once",
        "tests/orchestrator/remote/test_following.py::"
        "test_silence_on_a_standing_connection_is_blindness_too",
        "tests/infra/ssh/test_keep_alive.py::test_signs_of_life_keep_a_silent_connection_open",
        "tests/infra/ssh/test_remote.py::test_a_lost_link_is_told_and_made_again",
    ),
    "O-52": (  # jump hosts are ignored
        "tests/infra/ssh/test_config.py::test_the_users_configuration_is_respected",
        "tests/infra/ssh/test_config.py::test_an_option_that_is_not_supported_is_named",
        "tests/infra/ssh/test_remote.py::test_a_host_behind_a_bastion_is_reached",
    ),
    "O-53": (  # host keys on other ports; silent trust
        "tests/infra/ssh/test_keys.py::test_a_host_key_is_looked_up_by_address_and_port",
        "tests/infra/ssh/test_remote.py::test_host_keys_are_strict",
        "tests/orchestrator/hosts/test_check_hosts.py::test_a_changed_key_is_never_added",
        "tests/orchestrator/hosts/test_check_hosts.py::"
        "test_a_key_is_added_when_its_fingerprint_was_expected",
    ),
    "O-54": (  # sudo waits for a password
        "tests/infra/ssh/test_remote.py::test_a_password_prompt_of_sudo_ends_at_once",
    ),
    "O-63": (  # keys of the wrong kind, and what is said of them
        "tests/infra/ssh/test_keys.py::test_every_usual_key_is_read",
        "tests/infra/ssh/test_keys.py::test_what_is_no_key_is_told",
        "tests/infra/ssh/test_remote.py::test_each_fault_of_a_login_has_its_own_message",
        "tests/infra/ssh/test_keys.py::test_an_encrypted_key_takes_a_referenced_passphrase",
        "tests/infra/ssh/test_remote.py::test_an_rsa_key_logs_in",
    ),
    # The load client
    "O-58": (  # one silent stream blocks all
        "tests/contracts/test_stream_faults.py::"
        "test_one_silent_stream_of_eight_does_not_hold_up_the_others",
        "tests/contracts/test_stream_faults.py::test_silence_ends_its_request_and_no_other",
        "tests/contracts/test_load_client.py::test_a_silent_stream_ends_alone",
        "tests/orchestrator/test_sick_servers.py::"
        "test_a_stalled_request_ends_its_pass_within_the_silence_allowed",
    ),
    "O-62": (  # an early stop for the wrong reason
        "tests/sweeps/test_stopping.py::test_a_decision_says_what_it_rests_on",
        "tests/sweeps/test_stopping.py::test_few_blocks_decide_nothing",
        "tests/orchestrator/test_early_stop.py::test_rules_of_other_tuners_can_be_chosen",
        "tests/orchestrator/test_sweep_run.py::"
        "test_a_surely_worse_trial_is_stopped_and_a_close_one_is_not",
        "tests/sweeps/test_stopping.py::test_an_equal_candidate_is_seldom_stopped_at_any_look",
        "tests/orchestrator/test_trial.py::test_an_order_to_stop_keeps_the_bound_and_the_rate",
        "tests/orchestrator/search/test_study.py::test_each_outcome_has_one_state",
    ),
    # Optuna
    "O-55": (  # resume after the space was edited
        "tests/orchestrator/test_continuing.py::"
        "test_an_edited_space_is_met_with_its_difference_and_both_commands",
        "tests/orchestrator/test_continuing.py::"
        "test_what_fits_an_edited_space_is_kept_and_the_rest_set_aside",
        "tests/orchestrator/search/test_damaged_study.py::"
        "test_a_study_of_another_space_is_made_again",
    ),
    "O-56": (  # a failed result must not end the study
        "tests/orchestrator/search/test_study.py::test_each_outcome_has_one_state",
    ),
    "O-57": (  # the storage is locked or broken
        "tests/orchestrator/search/test_study.py::test_a_viewer_that_holds_the_file_loses_nothing",
        "tests/orchestrator/search/test_damaged_study.py::"
        "test_a_damaged_or_lost_file_is_set_aside_and_made_again",
        "tests/orchestrator/search/test_damaged_study.py::"
        "test_a_file_that_somebody_holds_for_too_long_is_one_clear_message",
    ),
    "O-65": (  # trials that run for ever in the study
        "tests/orchestrator/test_continuing.py::"
        "test_a_trial_that_a_kill_cut_off_counts_as_what_it_is",
        "tests/e2e/test_ray_sweep.py::test_a_driver_that_is_killed_twice_leaves_no_server_and_its_sweep_resumes",
        "tests/orchestrator/search/test_study.py::"
        "test_a_resumed_search_repeats_nothing_and_takes_up_what_was_cut_off",
    ),
}
