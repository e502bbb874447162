"""Runs the script next to this file, with the tools of Handfast as functions."""

import builtins
import json
import os
import sys
from _thread import allocate_lock

FOLDER = os.path.dirname(os.path.abspath(__file__))


class ToolError(Exception):
    """Error of a tool, with its code, message, hint and data."""

    def __init__(self, code, message, hint=None, data=None):
        super().__init__(f"{code}: {message}" + (f" ({hint})" if hint else ""))
        self.code, self.message, self.hint, self.data = code, message, hint, data


class Channel:
    """The way to Handfast: one line asks for a call, and one line answers."""

    def __init__(self):
        self.answers = os.fdopen(3, "rb")
        self.lock = allocate_lock()

    def send(self, message):
        left = memoryview(json.dumps(message, allow_nan=False).encode() + b"\n")
        while left:
            left = left[os.write(4, left):]

    def call(self, name, arguments):
        with self.lock:
            self.send({"tool": name, "arguments": arguments})
            line = self.answers.readline()
        if not line:
            raise ToolError("ECANCELLED", "Handfast has ended this script")
        answer = json.loads(line)
        if "error" in answer:
            error = answer["error"]
            raise ToolError(error["code"], error["message"], error.get("hint"), error.get("data"))
        return answer["data"]


class Packages:
    """Looks into the folders of installed packages, once a module is found nowhere else.

    Most scripts import none, and reading these folders can take longer than the start of Python.
    """

    def find_spec(self, name, path=None, target=None):
        if path is not None:
            return None
        sys.meta_path.remove(self)
        import site

        site.main()
        for finder in list(sys.meta_path):
            find = getattr(finder, "find_spec", None)
            spec = find(name, path, target) if find else None
            if spec is not None:
                return spec
        return None


def leave(code=None):
    """Ends the script."""
    raise SystemExit(code)


def explain(*things):
    """Prints the documentation of a thing."""
    import pydoc

    return pydoc.help(*things)


class Tools:
    """Functions that call the tools, one for each."""

    def __init__(self, channel):
        with open(os.path.join(FOLDER, "tools.json"), "rb") as file:
            self.__dict__.update(_channel=channel, _known=json.load(file))

    def __dir__(self):
        return list(self._known)

    def __getattr__(self, name):
        known = self._known.get(name)
        if known is None:
            # Python asks modules and classes for names like these.
            if name.startswith("__"):
                raise AttributeError(name)
            import difflib

            near = difflib.get_close_matches(name, self._known, 1)
            hint = f"; did you mean tools.{near[0]}?" if near else "; dir(tools) lists them"
            raise AttributeError(f"there is no tool named {name}{hint}")
        description, names, required = known
        channel = self._channel

        def function(*positions, **arguments):
            if len(positions) > len(names):
                raise TypeError(f"tools.{name}() takes at most {len(names)} arguments")
            for place, value in zip(names, positions):
                if place in arguments:
                    raise TypeError(f"tools.{name}() got two values for {place!r}")
                arguments[place] = value
            unknown = [given for given in arguments if given not in names]
            if unknown:
                raise TypeError(f"tools.{name}() has no argument {unknown[0]!r}; it has {', '.join(names)}")
            missing = [place for place in required if place not in arguments]
            if missing:
                raise TypeError(f"tools.{name}() lacks the argument {missing[0]!r}")
            return channel.call(name, {key: value for key, value in arguments.items() if value is not None})

        function.__name__ = function.__qualname__ = name
        shown = ", ".join(place if place in required else f"{place}=None" for place in names)
        function.__doc__ = f"{name}({shown})\n\n{description}"
        self.__dict__[name] = function
        return function


def run():
    # What was printed before a kill is shown.
    sys.stdout.reconfigure(line_buffering=True)
    channel = Channel()
    # Must come before the script, which could name any program.
    channel.send({"program": sys.executable or ""})
    sys.meta_path.append(Packages())
    builtins.exit = builtins.quit = leave
    builtins.help = explain
    tools = Tools(channel)
    sys.modules["tools"] = tools
    path = os.path.join(FOLDER, "script.py")
    with open(path, "rb") as file:
        source = file.read()
    names = {"__name__": "__main__", "__file__": path, "tools": tools, "ToolError": ToolError}
    status = 0
    try:
        exec(compile(source, "script.py", "exec"), names)
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else int(end.code is not None)
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)
    except BaseException:
        import linecache
        import traceback

        sys.stdout.flush()
        lines = source.decode(errors="replace").splitlines(True)
        linecache.cache["script.py"] = (len(source), None, lines, "script.py")
        kind, error, trace = sys.exc_info()
        # The first frame is this file.
        traceback.print_exception(kind, error, trace.tb_next)
        status = 1
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except OSError:
        status = status or 1
    channel.send({"end": status & 255})
    os._exit(status & 255)


run()
