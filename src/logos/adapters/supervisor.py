"""The parent of one turn or check: when its command is over, it ends every process left of it and notes the exit code.

Started as a script, `python -I -S supervisor.py TOKEN FOLDER COMMAND…`, with nothing but the standard library, because
every turn waits for it. It outlives its driver. Decision 028 says why there is one.
"""

import os
import sys
import time

# Type checkers take it for true. The modules behind `signal` and `ctypes` load in a third of their time.
TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
else:
    import _signal as signal

# How long a command may take to end after SIGTERM.
GRACE_SECONDS = 3.0
# Processes that cannot be ended, such as those of another user, are given up after this time.
END_SECONDS = 10.0
STOPPED = -int(signal.SIGTERM)
_PR_SET_CHILD_SUBREAPER = 36
_STOPS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_WAITED_FOR = (signal.SIGCHLD, signal.SIGALRM, *_STOPS)


def main(arguments: list[str]) -> None:
    token, folder, *command = arguments
    adopts_orphans = _become_subreaper()
    inherited = signal.pthread_sigmask(signal.SIG_BLOCK, _WAITED_FOR)
    for signum in (signal.SIGCHLD, signal.SIGALRM):
        # Where a parent ignores them, they would never arrive.
        signal.signal(signum, lambda _signum, _frame: None)
    pid = os.getpid()
    # Before the command starts: a new driver must find it.
    _note(f"{folder}/pid", f"{pid} {token} {' '.join(identity(pid))}\n")
    child = os.fork()
    if child == 0:
        _execute(command, inherited)
    code = _wait(child)
    if not adopts_orphans:
        _signal_group(child, signal.SIGKILL)
    until = time.monotonic() + END_SECONDS
    while _reaped() is not None and time.monotonic() < until:
        if not end_children(pid):
            time.sleep(0.001)
    _note(f"{folder}/exit", f"{code}\n")


def _become_subreaper() -> bool:
    """Adopt every descendant whose parent ends, also one in a session of its own; False where the system cannot."""
    try:
        import _ctypes  # noqa: PLC0415 - Python may be built without it

        prctl = _ctypes.dlsym(_ctypes.dlopen(None, 0), "prctl")  # pyright: ignore[reportArgumentType]
        return sys.platform == "linux" and _ctypes.call_function(prctl, (_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)) == 0
    except (ImportError, OSError, AttributeError):
        return False


def _execute(command: list[str], mask: "set[int | signal.Signals]") -> None:
    """Become the command, in a session of its own: a signal to its group must not end its supervisor."""
    try:
        os.setsid()
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        os.execvp(command[0], command)
    except OSError as error:
        os.write(2, os.fsencode(f"{command[0]}: {error.strerror}\n"))
    finally:
        os._exit(127)


def _wait(child: int) -> int:
    """Wait for the command and return its exit code, negative for a signal; STOPPED if somebody ended it."""
    stopped = False
    while True:
        received = signal.sigwait(_WAITED_FOR)
        if received in _STOPS:
            stopped = True
            if not _signal_group(child, signal.SIGTERM):
                # It has no group yet.
                os.kill(child, signal.SIGTERM)
            # A process that is stopped does not get it before it continues.
            _signal_group(child, signal.SIGCONT)
            signal.setitimer(signal.ITIMER_REAL, GRACE_SECONDS)
        ended = _reaped() or {}
        if child in ended:
            # A command that was asked to end may say that all is well: its work is still not done.
            return STOPPED if stopped else os.waitstatus_to_exitcode(ended[child])
        if received == signal.SIGALRM and stopped:
            return STOPPED


def _signal_group(leader: int, signum: int) -> bool:
    try:
        os.killpg(leader, signum)
    except OSError:
        return False
    return True


def _reaped() -> dict[int, int] | None:
    """The children that have ended, with their status; None where no child is left."""
    ended: dict[int, int] = {}
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return ended or None
        if pid == 0:
            return ended
        ended[pid] = status


def end_children(parent: int) -> bool:
    """End the children of a supervisor, each with its process group; returns whether any was alive.

    A group ends at once, however fast its processes start others. What is deeper becomes a child when its parent ends.
    The pid of a child is not given to another process before its parent has waited for it.
    """
    alive = False
    for pid in children(parent):
        # A zombie may still have threads, so it gets the signal too.
        alive |= stat_of(pid)[:1] not in ([], ["Z"], ["X"])
        try:
            # All are in sessions that were begun below the supervisor, and a group is within one session.
            os.killpg(os.getpgid(pid), signal.SIGKILL)
            os.kill(pid, signal.SIGKILL)
        except OSError:
            pass
    return alive


def children(parent: int) -> list[int]:
    listed = _text(f"/proc/{parent}/task/{parent}/children").split()
    if listed or os.path.exists(f"/proc/{parent}/task/{parent}/children"):
        return [int(pid) for pid in listed]
    # Some kernels have no such file.
    pids = [int(name) for name in os.listdir("/proc") if name.isdigit()] if os.path.isdir("/proc") else []
    return [pid for pid in pids if stat_of(pid)[1:2] == [str(parent)]]


def send(pid: int, start: str, signum: int) -> bool:
    """Send a signal to the process that started then, never to a later one with the same pid."""
    handle = None
    try:
        if hasattr(os, "pidfd_open"):
            handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return False
    except OSError:
        # The kernel has none.
        pass
    try:
        if identity(pid)[2] != start:
            return False
        if handle is not None:
            signal.pidfd_send_signal(handle, signum)
        else:
            os.kill(pid, signum)
        return True
    except OSError:
        return False
    finally:
        if handle is not None:
            os.close(handle)


def stat_of(pid: int) -> list[str]:
    """What the system says about a process, from its state on; empty where there is none."""
    # The name of the command, in parentheses, may contain anything.
    return _text(f"/proc/{pid}/stat").rpartition(")")[2].split()


def identity(pid: int) -> tuple[str, str, str]:
    """What tells a process from all others that have its pid: boot, pid namespace, and start. "-" where unknown."""
    boot = _text("/proc/sys/kernel/random/boot_id").strip()
    try:
        namespace = os.readlink("/proc/self/ns/pid")
    except OSError:
        namespace = ""
    fields = stat_of(pid)
    return boot or "-", namespace or "-", fields[19] if fields else "-"


def _text(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as source:
            return source.read()
    except OSError:
        return ""


def _note(path: str, text: str) -> None:
    """Write a file that does not exist yet; a reader finds all of it or nothing."""
    temporary = f"{path}.{os.getpid()}"
    with open(temporary, "w", encoding="utf-8") as sink:
        sink.write(text)
    try:
        os.link(temporary, path)
    finally:
        os.unlink(temporary)


if __name__ == "__main__":
    main(sys.argv[1:])
    # Without cleaning up: a driver waits for this.
    os._exit(0)
