"""The command `python -m infra.probing`: answers a question from its input on its output."""

import json
import sys

from infra.probing.asking import Question, answer


def main() -> None:
    """Answer one question."""
    try:
        question = Question.read(sys.stdin.buffer.read())
    except ValueError as error:
        sys.exit(str(error))
    json.dump(answer(question).as_data(), sys.stdout)


if __name__ == "__main__":
    main()
