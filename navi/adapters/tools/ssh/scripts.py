"""What the ``sh`` of a host is told: to run a command, and to end all that it started."""

from shlex import quote

# The command runs in the user's own shell, in a session of its own, with nothing to read: what asks
# for a password gets none and ends. First the script says under which process group it can be ended.
_START = """\
NAVI_CALL={mark}; export NAVI_CALL
run='echo "$1 $$"; exec "${{SHELL:-/bin/sh}}" -c "$2" </dev/null 2>&1'
if command -v setsid >/dev/null 2>&1; then
  setsid sh -c "$run" sh {mark} {command}
elif command -v perl >/dev/null 2>&1; then
  perl -e 'use POSIX; POSIX::setsid(); exec @ARGV' sh -c "$run" sh {mark} {command}
else
  sh -c "$run" sh {mark} {command}
fi </dev/null
exit $?
"""

# Where there is /proc, what has left the group is found by the variable that it inherited. What is told
# to end has a little time, then it is killed; new processes may come between two looks. Where the group
# is not known, the command may be about to start.
_END = """\
mark={mark}; group={group}
left() {{
  if [ -r /proc/self/stat ]; then
    grep -l "NAVI_CALL=$mark" /proc/[0-9]*/environ | sed 's|^/proc/||; s|/environ$||'
    cat /proc/[0-9]*/stat | sed 's/^\\([0-9]*\\) .*) /\\1 /' | while read -r pid state parent its rest; do
      [ "$its" = "$group" ] && [ "$state" != Z ] && echo "$pid"
    done
  else
    ps -A -o pid= -o stat= -o pgid= | while read -r pid state its; do
      case $state in Z*) ;; *) [ "$its" = "$group" ] && echo "$pid" ;; esac
    done
  fi 2>/dev/null
}}
round=0 told=
while [ $round -lt 30 ]; do
  found=$(left)
  if [ -n "$found" ]; then
    [ -z "$told" ] && kill -s TERM $found
    [ $round -ge {grace} ] && kill -s KILL $found
    told=yes
  elif [ $group != none ] || [ $round -ge 20 ]; then
    echo "$mark gone"
    exit 0
  fi
  round=$((round + 1))
  sleep 0.1 || sleep 1
done 2>/dev/null
echo "$mark left"
"""


def starting(command: str, *, mark: str) -> str:
    """The script that runs a command; its first line of output is ``<mark> <process group>``.

    Args:
        mark: letters and digits that nothing else has.
    """
    return _START.format(mark=mark, command=quote(command))


def ending(*, mark: str, group: int | None, grace: int) -> str:
    """The script that ends a command; it says ``<mark> gone`` once nothing of it is left.

    Args:
        group: what the other script has said; None where it has said nothing.
        grace: tenths of a second that a program has to end by itself.
    """
    return _END.format(mark=mark, group=group or "none", grace=grace)
