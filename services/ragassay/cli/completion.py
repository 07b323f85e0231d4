"""``ragassay completion``: a script for the shell. It holds all names, so that completing starts no process of ours."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import typer

Shell = Annotated[Literal["bash", "zsh", "fish"], typer.Argument(help="bash, zsh or fish.")]
_FOR_ZSH = "autoload -U +X compinit && compinit\nautoload -U +X bashcompinit && bashcompinit\n"
_SCRIPT = """\
_ragassay() {
  local cur=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD-1]} command= words= word before= wanted= folder=runs
  local metrics="@METRICS@"
  for word in "${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
    case $word in -*) ;; *) command=$word; break ;; esac
  done
  case $command in
    "") words="@COMMANDS@" ;;
@OPTIONS@
  esac
  case $previous in
    --metrics) wanted=metrics ;;
    --run|--resume|--baseline) wanted=runs; case $command in run) folder=benchmarks ;; esac ;;
    trend) wanted=figures ;;
    *) case $command in compare|show|power|report) wanted=runs ;; esac
  esac
  case $cur in -*) wanted=words ;; esac
  case $command in ""|data) wanted=words ;; esac
  COMPREPLY=()
  case $wanted in
    words) COMPREPLY=($(compgen -W "$words" -- "$cur")) ;;
    metrics)
      case $cur in *,*) before=${cur%,*}, ;; esac
      COMPREPLY=($(compgen -P "$before" -W "$metrics" -- "${cur##*,}")) ;;
    figures) COMPREPLY=($(compgen -W "$metrics cost_per_accurate_answer suspicious" -- "$cur")) ;;
    runs) # compgen expands its words, so that only names without special characters may be among them
      words=$(command ls "${RAGASSAY_HOME:-.ragassay}/$folder" 2>/dev/null | command grep -xE '[A-Za-z0-9._-]+')
      COMPREPLY=($(compgen -W "last $words" -- "$cur")) ;;
  esac
}
complete -o bashdefault -o default -F _ragassay ragassay
"""


_FISH = """\
function __ragassay_runs
  set -l home .ragassay; set -q RAGASSAY_HOME; and set home $RAGASSAY_HOME
  echo last; command ls $home/runs 2>/dev/null
end
function __ragassay_metrics
  set -l before (string match -r '.*,' -- (commandline -ct); or echo)
  for metric in @METRICS@; echo $before$metric; end
end
function __ragassay_is; contains -- (commandline -opc)[2] $argv; end
complete -c ragassay -n 'test (count (commandline -opc)) -eq 1' -f -a '@COMMANDS@'
@OPTIONS@
complete -c ragassay -l metrics -x -a '(__ragassay_metrics)'
complete -c ragassay -l run -l resume -l baseline -x -a '(__ragassay_runs)'
complete -c ragassay -n '__ragassay_is compare show power report' -a '(__ragassay_runs)'
complete -c ragassay -n '__ragassay_is trend' -f -a '@METRICS@ cost_per_accurate_answer suspicious'
"""


def completion(shell: Shell) -> None:
    """Print a completion script; for bash: ragassay completion bash >> ~/.bashrc."""
    from ragassay.cli.app import app
    from ragassay.metrics import METRICS

    root: Any = typer.main.get_command(app)
    options = {name: _words(command) for name, command in root.commands.items() if not command.hidden}
    metrics = [f"{m.family}@{10 if m.takes == 'k' else 0.8}" if m.takes else m.family for m in METRICS]
    optional = [m.family for m in METRICS if m.optional]
    lines = [f'    {name}) words="{words}" ;;' for name, words in options.items()]
    if shell == "fish":
        lines = [f"complete -c ragassay -n '__ragassay_is {name}' -a '{words}'" for name, words in options.items()]
    script = (_FISH if shell == "fish" else _SCRIPT).replace("@METRICS@", " ".join(sorted([*metrics, *optional])))
    script = script.replace("@COMMANDS@", " ".join([*options, "--version", "--verbose", "--help"]))
    typer.echo((_FOR_ZSH if shell == "zsh" else "") + script.replace("@OPTIONS@", "\n".join(lines)), nl=False)


def _words(command: Any) -> str:
    """What may follow a command: its subcommands and options, and theirs."""
    inner = getattr(command, "commands", {})
    parts = [*inner, *(_words(each) for each in inner.values())]
    parts += [name for p in command.params for name in (*p.opts, *p.secondary_opts) if name.startswith("--")]
    return " ".join(dict.fromkeys([*parts, "--help"]))
