"""A program on a terminal of its own, for tests."""

import fcntl
import os
import pty
import struct
import termios


class OnTerminal:
    """A command whose three streams are a terminal of that many columns."""

    def __init__(self, command, environment, columns=80):
        self.pid, self.terminal = pty.fork()
        if self.pid == 0:
            fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
            os.execve(command[0], command, environment)

    def type(self, keys):
        os.write(self.terminal, keys)

    def finish(self):
        """Its exit status, and what it wrote."""
        seen = b""
        try:
            while piece := os.read(self.terminal, 4096):
                seen += piece
        except OSError:  # it has ended
            pass
        os.close(self.terminal)
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1]), seen.decode()
