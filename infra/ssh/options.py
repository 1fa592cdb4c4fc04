"""What the options of an SSH configuration mean to us: used, without effect, or refused."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from infra.inventory import HostEntry

LISTS = frozenset({"identityfile", "certificatefile", "userknownhostsfile", "globalknownhostsfile"})
"""Options with several values."""

ALGORITHMS = ("ciphers", "macs", "kexalgorithms", "hostkeyalgorithms")
"""Lists that the user narrows; ours are narrowed in the same way."""

EVERYTHING = "*"
"""Stands for all options where a configuration is unclear as a whole."""

USED = frozenset({
    "hostname", "user", "port", "identityfile", "proxyjump", "userknownhostsfile",
    "globalknownhostsfile", "identitiesonly", "identityagent", "hostkeyalias", *ALGORITHMS,
})  # fmt: skip

WITHOUT_EFFECT = frozenset({
    # About terminals, forwarding and comfort of interactive sessions, none of which we have; about
    # host keys, which are strict here; about ways to log in without keys; about certificates; about
    # patience, which is that of hosts.toml.
    "addkeystoagent", "batchmode", "canonicaldomains", "canonicalizefallbacklocal",
    "canonicalizehostname", "canonicalizemaxdots", "canonicalizepermittedcnames",
    "casignaturealgorithms", "channeltimeout", "checkhostip", "clearallforwardings", "compression",
    "compressionlevel", "connectionattempts", "connecttimeout", "controlmaster", "controlpath",
    "controlpersist", "dynamicforward", "enableescapecommandline", "enablesshkeysign", "escapechar",
    "exitonforwardfailure", "fingerprinthash", "forkafterauthentication", "forwardagent",
    "forwardx11", "forwardx11timeout", "forwardx11trusted", "gatewayports", "gssapiauthentication",
    "gssapiclientidentity", "gssapidelegatecredentials", "gssapikexalgorithms", "gssapikeyexchange",
    "gssapirenewalforcesrekey", "gssapiserveridentity", "gssapitrustdns", "hashknownhosts",
    "hostbasedacceptedalgorithms", "hostbasedauthentication", "ignoreunknown", "ipqos",
    "kbdinteractiveauthentication", "kbdinteractivedevices", "localcommand", "localforward",
    "loglevel", "logverbose", "nohostauthenticationforlocalhost", "numberofpasswordprompts",
    "obscurekeystroketiming", "passwordauthentication", "permitlocalcommand", "permitremoteopen",
    "preferredauthentications", "proxyusefdpass", "pubkeyacceptedalgorithms",
    "pubkeyauthentication", "rekeylimit", "remotecommand", "remoteforward", "requesttty",
    "requiredrsasize", "sendenv", "serveralivecountmax", "serveraliveinterval", "sessiontype",
    "setenv", "stdinnull", "streamlocalbindmask", "streamlocalbindunlink", "stricthostkeychecking",
    "syslogfacility", "tag", "tcpkeepalive", "tunnel", "tunneldevice", "updatehostkeys",
    "usekeychain", "verifyhostkeydns", "versionaddendum", "visualhostkey", "warnweakcrypto",
    "xauthlocation",
})  # fmt: skip

MENDS = {
    "proxycommand": (
        'Use ProxyJump there, or give the way by `jump` in hosts.toml; "none" is a direct way.'
    ),
    "certificatefile": "Name `key` in hosts.toml; KEY-cert.pub beside it is found by itself.",
    "pkcs11provider": "Name `key` in hosts.toml.",
    "securitykeyprovider": "Name `key` in hosts.toml.",
    "knownhostscommand": "Name `known_hosts` in hosts.toml.",
}

_SETTLED_BY: Mapping[str, frozenset[str]] = {
    "user": frozenset({"user"}),
    "port": frozenset({"port"}),
    "key": frozenset({
        "identityfile", "identitiesonly", "identityagent", "certificatefile", "pkcs11provider",
        "securitykeyprovider",
    }),
    "jump": frozenset({"proxyjump", "proxycommand"}),
    "known_hosts": frozenset({"userknownhostsfile", "globalknownhostsfile", "knownhostscommand"}),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Settings:
    """What an SSH configuration says about one host."""

    given: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """By option, in small letters: what is not OpenSSH's default. Several values for `LISTS`."""
    unclear: Mapping[str, str] = field(default_factory=dict)
    """Options that the configuration may set, each with where and why that cannot be told."""
    expanded: bool = False
    """Whether the tokens of known hosts were replaced already."""

    def one(self, option: str) -> str | None:
        """Return the value of an option; None where it has none, or `none`."""
        values = self.given.get(option) or ("",)
        return None if values[0].lower() in ("", "none") else values[0]

    def yes(self, option: str) -> bool:
        """Tell whether an option is switched on."""
        return (self.one(option) or "").lower() in ("yes", "true")


def settled(host: HostEntry) -> frozenset[str]:
    """Return the options that an entry of the inventory leaves no say."""
    found = [options for name, options in _SETTLED_BY.items() if getattr(host, name) is not None]
    options = frozenset().union(*found)
    return options - {"identityagent"} if host.agent else options


def missing(host: HostEntry) -> list[str]:
    """Return the fields that an entry lacks to be independent of any SSH configuration."""
    return [
        name
        for name in _SETTLED_BY
        if getattr(host, name) is None and not (name == "key" and host.agent)
    ]
