"""Pickles that run code, pickles that are malformed or explode, and harmless old states."""

from __future__ import annotations

import collections
import marshal
import pickle
import random
import struct

import numpy as np

PYTHON = "open('canary', 'w').close()"
SHELL = "touch canary"
STOP = b"."


def named(module: str, name: str) -> bytes:
    return f"c{module}\n{name}\n".encode()


def text(value: str) -> bytes:
    data = value.encode()
    return b"X" + struct.pack("<I", len(data)) + data


def raw(value: bytes) -> bytes:
    return b"B" + struct.pack("<I", len(value)) + value


def number(value: int) -> bytes:
    return b"J" + struct.pack("<i", value)


def tuple_of(*items: bytes) -> bytes:
    return b"(" + b"".join(items) + b"t"


def list_of(*items: bytes) -> bytes:
    return b"](" + b"".join(items) + b"e"


def call(function: bytes, *arguments: bytes) -> bytes:
    return function + tuple_of(*arguments) + b"R"


def getattr_of(value: bytes, name: str) -> bytes:
    return call(named("builtins", "getattr"), value, text(name))


OS = call(named("builtins", "__import__"), text("os"))
CODE = call(named("builtins", "compile"), text(PYTHON), text("x"), text("exec"))
SYSTEM = named("os", "system")


def short(value: str) -> bytes:
    return b"\x8c" + bytes([len(value)]) + value.encode()


def hostile() -> dict[str, bytes]:
    """Pickles that make a file whose name begins with "canary" in the working folder when they are unpickled."""
    found = {
        "os.system, protocol 0": b"cos\nsystem\n(S'touch canary'\ntR.",
        "posix.system": call(named("posix", "system"), text(SHELL)) + STOP,
        "subprocess.call": call(named("subprocess", "call"), list_of(text("touch"), text("canary"))) + STOP,
        "subprocess.check_call": call(named("subprocess", "check_call"), list_of(text("touch"), text("canary"))) + STOP,
        "subprocess.check_output": call(named("subprocess", "check_output"), list_of(text("touch"), text("canary")))
        + STOP,
        "subprocess.run": call(named("subprocess", "run"), list_of(text("touch"), text("canary"))) + STOP,
        "subprocess.getoutput": call(named("subprocess", "getoutput"), text(SHELL)) + STOP,
        "subprocess.getstatusoutput": call(named("subprocess", "getstatusoutput"), text(SHELL)) + STOP,
        "commands.getoutput, a name of Python 2": call(named("commands", "getoutput"), text(SHELL)) + STOP,
        "os.spawnlp": call(named("os", "spawnlp"), number(0), text("touch"), text("touch"), text("canary")) + STOP,
        "os.spawnvp": call(named("os", "spawnvp"), number(0), text("touch"), list_of(text("touch"), text("canary")))
        + STOP,
        "os.execvp": call(named("os", "execvp"), text("touch"), list_of(text("touch"), text("canary"))) + STOP,
        "pydoc.pipepager": call(named("pydoc", "pipepager"), text("x"), text("cat > canary")) + STOP,
        "eval": call(named("builtins", "eval"), text(PYTHON)) + STOP,
        "exec": call(named("builtins", "exec"), text(PYTHON)) + STOP,
        "__builtin__.eval": call(named("__builtin__", "eval"), text(PYTHON)) + STOP,
        "exec of compile": call(named("builtins", "exec"), CODE) + STOP,
        "getattr of __import__": call(getattr_of(OS, "system"), text(SHELL)) + STOP,
        "getattr of import_module": call(
            getattr_of(call(named("importlib", "import_module"), text("os")), "system"), text(SHELL)
        )
        + STOP,
        "attrgetter": call(call(call(named("operator", "attrgetter"), text("system")), OS), text(SHELL)) + STOP,
        "methodcaller": call(call(named("operator", "methodcaller"), text("system"), text(SHELL)), OS) + STOP,
        "partial": call(call(named("functools", "partial"), SYSTEM, text(SHELL))) + STOP,
        "functools.reduce": call(named("functools", "reduce"), named("builtins", "exec"), list_of(text(PYTHON), b"}"))
        + STOP,
        "map": call(
            named("builtins", "list"), call(named("builtins", "map"), named("builtins", "eval"), list_of(text(PYTHON)))
        )
        + STOP,
        "filter": call(
            named("builtins", "list"),
            call(named("builtins", "filter"), named("builtins", "eval"), list_of(text(PYTHON))),
        )
        + STOP,
        "starmap": call(
            named("builtins", "list"),
            call(named("itertools", "starmap"), named("builtins", "eval"), list_of(tuple_of(text(PYTHON)))),
        )
        + STOP,
        "function of marshalled code": call(
            call(
                named("types", "FunctionType"),
                call(named("marshal", "loads"), raw(marshal.dumps(compile(PYTHON, "x", "exec")))),
                call(named("builtins", "globals")),
            )
        )
        + STOP,
        "runpy": call(named("runpy", "_run_code"), CODE, b"}") + STOP,
        "interpreter": call(getattr_of(call(named("code", "InteractiveInterpreter")), "runsource"), text(PYTHON))
        + STOP,
        "timeit": call(named("timeit", "timeit"), text(PYTHON), text("pass"), named("time", "time"), number(1)) + STOP,
        "cProfile": call(named("cProfile", "run"), text(PYTHON), text("canary-profile")) + STOP,
        "trace": call(getattr_of(call(named("trace", "Trace"), number(0), number(0)), "run"), text(PYTHON)) + STOP,
        "bdb": call(getattr_of(call(named("bdb", "Bdb")), "runeval"), text(PYTHON)) + STOP,
        "ctypes": call(getattr_of(call(named("ctypes", "CDLL"), b"N"), "system"), raw(SHELL.encode())) + STOP,
        "pydoc.locate": call(call(named("pydoc", "locate"), text("os.system")), text(SHELL)) + STOP,
        "pkgutil.resolve_name": call(call(named("pkgutil", "resolve_name"), text("os:system")), text(SHELL)) + STOP,
        "open": call(named("builtins", "open"), text("canary"), text("w")) + STOP,
        "io.open": call(named("io", "open"), text("canary"), text("w")) + STOP,
        "os.open": call(named("os", "open"), text("canary"), number(65)) + STOP,
        "os.mkdir": call(named("os", "mkdir"), text("canary")) + STOP,
        "os.symlink": call(named("os", "symlink"), text("nothing"), text("canary")) + STOP,
        "tempfile": call(named("tempfile", "mkstemp"), text(""), text("canary"), text(".")) + STOP,
        "pathlib": call(getattr_of(call(named("pathlib", "Path"), text("canary")), "touch")) + STOP,
        "shelve": call(named("shelve", "open"), text("canary")) + STOP,
        "dbm": call(named("dbm.dumb", "open"), text("canary"), text("n")) + STOP,
        "zipfile": call(named("zipfile", "ZipFile"), text("canary"), text("w")) + STOP,
        "tarfile": call(named("tarfile", "open"), text("canary"), text("w")) + STOP,
        "gzip": call(named("gzip", "open"), text("canary"), text("w")) + STOP,
        "logging": call(named("logging", "FileHandler"), text("canary")) + STOP,
        "numpy.savetxt": call(named("numpy", "savetxt"), text("canary"), list_of(number(1))) + STOP,
        "numpy.memmap": call(named("numpy", "memmap"), text("canary"), text("u1"), text("w+"), number(0), number(1))
        + STOP,
        "numpy.memmap by NEWOBJ": b"\x80\x02"
        + named("numpy", "memmap")
        + tuple_of(text("canary"), text("u1"), text("w+"), number(0), number(1))
        + b"\x81.",
        "numpy.memmap by NEWOBJ_EX": b"\x80\x04"
        + named("numpy", "memmap")
        + tuple_of(text("canary"), text("u1"), text("w+"), number(0))
        + b"}("
        + text("shape")
        + number(1)
        + b"u\x92.",
        "INST": b"(S'touch canary'\nios\nsystem\n.",
        "OBJ": b"(cos\nsystem\nS'touch canary'\no.",
        "BUILD sets an attribute of a class": named("json", "JSONDecoder")
        + b"N}("
        + text("decode")
        + SYSTEM
        + b"u\x86b0"
        + call(getattr_of(call(named("json", "JSONDecoder")), "decode"), text(SHELL))
        + STOP,
        "nested": call(named("pickle", "loads"), raw(b"cos\nsystem\n(S'touch canary'\ntR.")) + STOP,
        "nested, by the module in C": call(named("_pickle", "loads"), raw(b"cos\nsystem\n(S'touch canary'\ntR."))
        + STOP,
        "EXT1": call(named("copyreg", "add_extension"), text("os"), text("system"), number(1))
        + b"0\x82\x01"
        + tuple_of(text(SHELL))
        + b"R.",
        "inside an array of objects": call(
            named("numpy._core.multiarray", "_reconstruct"), named("numpy", "ndarray"), tuple_of(number(0)), raw(b"b")
        )
        + tuple_of(
            number(1),
            tuple_of(number(1)),
            call(named("numpy", "dtype"), text("O8"), b"\x89", b"\x88"),
            b"\x89",
            list_of(call(SYSTEM, text(SHELL))),
        )
        + b"b.",
        "as a key": b"}(" + call(SYSTEM, text(SHELL)) + b"Nu.",
        "deep in lists": b"](" * 20 + call(SYSTEM, text(SHELL)) + b"e" * 20 + STOP,
        "names from the stack": b"\x80\x04" + short("os") + short("system") + b"\x93" + short(SHELL) + b"\x85R.",
        "remembered names": b"\x80\x04"
        + short("os")
        + b"\x940"
        + short("system")
        + b"\x940h\x00h\x01\x93"
        + short(SHELL)
        + b"\x85R.",
        "a copied name": b"\x80\x04" + short("posix") + b"20" + short("system") + b"\x93" + short(SHELL) + b"\x85R.",
        "a name that was a decoy": b"\x80\x04"
        + short("os")
        + short("harmless")
        + b"0"
        + short("system")
        + b"\x93"
        + short(SHELL)
        + b"\x85R.",
        "decoys up to a mark": b"\x80\x04"
        + short("os")
        + b"("
        + short("math")
        + short("sqrt")
        + b"1"
        + short("system")
        + b"\x93"
        + short(SHELL)
        + b"\x85R.",
        "remembered twice": b"\x80\x04"
        + short("math")
        + b"q\x000"
        + short("os")
        + b"q\x000"
        + b"h\x00"
        + short("system")
        + b"\x93"
        + short(SHELL)
        + b"\x85R.",
        "remembered far apart": b"\x80\x04"
        + short("os")
        + b"q\x070"
        + short("x")
        + b"\x940h\x07"
        + short("system")
        + b"\x93"
        + short(SHELL)
        + b"\x85R.",
        "remembered as text": b"Vos\np5\n0Vsystem\np6\n0g5\ng6\n\x93V" + SHELL.encode() + b"\n\x85R.",
        "names with dots": b"\x80\x04" + short("os") + short("path.os.system") + b"\x93" + short(SHELL) + b"\x85R.",
        "names with escapes": b"\x80\x04S'\\x6fs'\nS'syst\\x65m'\n\x93" + short(SHELL) + b"\x85R.",
        "cut after the call": call(SYSTEM, text(SHELL)),
        "an unknown opcode after the call": call(SYSTEM, text(SHELL)) + b"\xff.",
        "bad text after the call": call(SYSTEM, text(SHELL)) + b"X\x01\0\0\0\xff.",
        "a frame first": b"\x95" + struct.pack("<Q", 0) + call(SYSTEM, text(SHELL)) + STOP,
        "bytes that can change first": b"\x96" + struct.pack("<Q", 1) + b"x0" + call(SYSTEM, text(SHELL)) + STOP,
        "a second pickle that calls, before the end": b"\x80\x02" + call(SYSTEM, text(SHELL)) + b"0N.",
    }
    return found


def _nested(open_: bytes, close: bytes, depth: int) -> bytes:
    return open_ * depth + b"N" + close * depth + STOP


def _array(dtype: bytes, shape: bytes, data: bytes) -> bytes:
    made = call(
        named("numpy._core.multiarray", "_reconstruct"), named("numpy", "ndarray"), tuple_of(number(0)), raw(b"b")
    )
    return made + tuple_of(number(1), shape, dtype, b"\x89", data) + b"b."


def _dtype(word: str, state: bytes = b"") -> bytes:
    return call(named("numpy", "dtype"), text(word), b"\x89", b"\x88") + (state + b"b" if state else b"")


def long_names() -> bytes:
    """400 modules, and every name in each."""
    parts = [b"j" + struct.pack("<i", i) for i in range(400)]
    words = b"".join(text(f"{i:03}" + "m" * 120) + b"r" + struct.pack("<i", i) + b"0" for i in range(400))
    return b"\x80\x04" + words + b"(" + b"".join(a + b + b"\x93" for a in parts for b in parts[:330]) + b"t."


#: A tuple of 2**60 leaves, in 300 bytes: each holds the one before it twice.
DOUBLED = b")q\x000" + b"".join(b"h%ch%c\x86q%c0" % (i, i, i + 1) for i in range(60)) + b"h\x3c"


def _fields() -> bytes:
    return tuple_of(number(3), text("<"), b"N", tuple_of(text("a")), b"}(" + text("a") + b"Nu")


def _encoding(function: bytes) -> bytes:
    array = _array(_dtype("i4"), tuple_of(number(2)), raw(b"12345678"))[:-1]
    return b"\x80\x02" + call(function, text("x"), array) + STOP


def _probes(bits: int = 17) -> bytes:
    """A dict whose keys lie one after the other on the way to one more, which is set again and again."""
    mask, run, place = (1 << bits) - 1, [], 1
    for _ in range((2 << bits) // 3 - 3):
        run.append(place)
        place = (place * 5 + 1) & mask
    where = {key: i for i, key in enumerate(run)}

    def start(key: int) -> int:
        place, rest = key & mask, key
        while rest:
            rest >>= 5
            place = (place * 5 + rest + 1) & mask
            if place not in where:
                return len(run)
        return where[place]

    last = min(((high << bits) | run[0] for high in range(1, 1000)), key=start)
    body = b"".join(number(key) + b"N" for key in run)
    return b"\x80\x02}(" + body + number(last) + b"q\x01N" + b"h\x01N" * (190_000 - len(run)) + b"u."


def _tuples_of_one_hash() -> bytes:
    """Keys of one hash, which are told apart by their last parts, after texts that are equal but not the same."""
    texts = b"".join((text("x" * (1 << 20)) + b"q%c0" % i) for i in range(2))
    keys = (b"(" + b"".join(b"h%c" % (k >> j & 1) for j in range(10)) + b"L%dL\ntN" % (k * ((1 << 61) - 1))
            for k in range(990))  # fmt: skip
    return b"\x80\x02" + texts + b"}(" + b"".join(keys) + b"u."


def _costly() -> dict[str, bytes]:
    """Pickles that are small, and whose keys, names or messages would take for ever."""
    shared = raw(b"\xff" * (4 << 20)) + b"q\x000"
    long = text("x" * (5 << 20))
    return {
        "a shared tuple as a key": b"\x80\x02}" + DOUBLED + b"Ns.",
        "a shared tuple in a set": b"\x80\x02" + call(named("builtins", "set"), list_of(DOUBLED)) + STOP,
        "a shared tuple as a shape": _array(_dtype("f8"), DOUBLED, raw(b"")),
        "a shared tuple as a data type": _array(call(named("numpy", "dtype"), DOUBLED), tuple_of(number(1)), raw(b"")),
        "an array as an encoding": _encoding(named("_codecs", "encode")),
        "an array as an encoding of bytes": _encoding(named("builtins", "bytes")),
        "keys of long texts": b"\x80\x02"
        + shared
        + b"}("
        + b"".join(b"(" + b"h\0" * 14 + number(i) + b"tN" for i in range(900))
        + b"u.",
        "a long key, many times": b"\x80\x02" + long + b"q\x000}(" + long + b"q\1N" + b"h\0N" * 190_000 + b"u.",
        "a long element, many times": b"\x80\x02"
        + long
        + b"q\x000"
        + call(named("builtins", "set"), list_of(long, b"h\0" * 380_000))
        + STOP,
        "keys in each other's places": _probes(),
        "tuples of one hash, of long texts": _tuples_of_one_hash(),
        "an empty array of 2**200 rows": _array(
            _dtype("f8"), tuple_of(number(0), *[number((1 << 31) - 1)] * 7), raw(b"")
        ),
        "a data type of another version": _array(
            _dtype("i4", tuple_of(number(160), text("<"), b"NNN", *[number(-1)] * 2, number(0))),
            tuple_of(),
            raw(b"1234"),
        ),
        "a data type with flags": _array(
            _dtype("i4", tuple_of(number(3), text("<"), b"NNN", *[number(-1)] * 2, number(63))),
            tuple_of(),
            raw(b"1234"),
        ),
    }


def malformed() -> dict[str, bytes]:
    """Pickles that are none, or that describe more than there is room or time for."""
    good = pickle.dumps({"epoch": [1, 2.5, "x", np.arange(3)]}, 4)
    doubled = b"]q\x000" + b"".join(b"](h%ch%ceq%c0" % (i, i, i + 1) for i in range(60)) + b"h\x3c."
    collisions = b"}(" + b"".join(b"L%dL\nN" % (k * ((1 << 61) - 1)) for k in range(20_000)) + b"u."
    tuples = b"}(" + b"".join(number(i) + b"\x85N" for i in range(20_000)) + b"u."
    big = text("x" * (1 << 20)) + b"q\x000"
    encoded = big + b"](" + (named("_codecs", "encode") + b"h\x00" + text("latin1") + b"\x86R") * 500 + b"e."
    return {
        "one byte": b"\x80",
        "a protocol to come": b"\x80\x06N.",
        "nothing but a protocol": b"\x80\x04",
        "no value": b"\x80\x04.",
        "no end": b"\x80\x04N",
        "an unknown opcode": b"\x80\x04N\xff.",
        **{f"cut at {at}": good[:at] for at in (3, len(good) // 2, len(good) - 1)},
        "something after the end": good + b"N",
        "a second pickle": good + good,
        "two values": b"\x80\x04NN.",
        "a call of nothing": b"\x80\x04R.",
        "a tuple without a mark": b"\x80\x04Nt.",
        "an item without a list": b"\x80\x04NNa.",
        "an item for a dict": b"\x80\x04}Na.",
        "a pair for a list": b"\x80\x04]NNs.",
        "a key without a value": b"\x80\x04}(Nu.",
        "an element for a list": b"\x80\x04](N\x90.",
        "a list as a key": b"\x80\x04}]Ns.",
        "recalls what it has not remembered": b"\x80\x04h\x05.",
        "remembers number 2**31": b"\x80\x04Nr\xff\xff\xff\x7f.",
        "remembers number -1": b"\x80\x02Np-1\n.",
        "a frame of 2**62 bytes": b"\x80\x04\x95" + struct.pack("<Q", 1 << 62) + b"N.",
        "bytes of 2**62": b"\x80\x04\x8e" + struct.pack("<Q", 1 << 62) + b"x.",
        "text that is no UTF-8": b"\x80\x04X\x02\0\0\0\xff\xfe.",
        "a negative length": b"\x80\x02\x8b\xff\xff\xff\xff.",
        "an integer of a megabyte": b"\x80\x02\x8b" + struct.pack("<i", 1 << 20) + b"\x01" * (1 << 20) + STOP,
        "an integer of a million digits": b"\x80\x02L" + b"9" * 1_000_000 + b"L\n.",
        "a number that is none": b"\x80\x02Ix\n.",
        "a million marks": b"\x80\x02" + b"(" * 1_000_000 + STOP,
        "a million opcodes": b"\x80\x02" + b"N0" * 500_000 + b"N.",
        "deep lists": b"\x80\x02" + _nested(b"](", b"e", 100_000),
        "lists in 1000 lists": b"\x80\x02" + _nested(b"](", b"e", 1000),
        "deep tuples": b"\x80\x02" + _nested(b"(", b"t", 100_000),
        "lists of 2**60 leaves": b"\x80\x02" + doubled,
        "tuples of 2**60 leaves": b"\x80\x02" + DOUBLED + STOP,
        "a list in itself": b"\x80\x02]q\x00h\x00a.",
        "a dict in itself": b"\x80\x02}q\x00X\x01\0\0\0ah\x00s.",
        "keys of one hash": b"\x80\x02" + collisions,
        "many tuples as keys": b"\x80\x02" + tuples,
        "a text encoded 500 times": b"\x80\x02" + encoded,
        "an array of 10**12 numbers": _array(
            _dtype("f8"), tuple_of(b"\x8a\x05" + (10**12).to_bytes(5, "little")), raw(b"")
        ),
        "an array of a negative shape": _array(_dtype("f8"), tuple_of(number(-1)), raw(b"")),
        "an array of objects": _array(_dtype("O8"), tuple_of(number(1)), list_of(b"N")),
        "an array of records": _array(_dtype("V4"), tuple_of(number(1)), raw(b"1234")),
        "a type with fields": _array(_dtype("i4", _fields()), tuple_of(number(1)), raw(b"1234")),
        "an array of long strings": _array(_dtype("S2147483647"), tuple_of(number(1)), raw(b"")),
        "an array that is too short": _array(_dtype("i4"), tuple_of(number(2)), raw(b"1234")),
        "an array of 100 dimensions": _array(_dtype("i4"), tuple_of(*[number(1)] * 100), raw(b"1234")),
        "an extension": b"\x80\x02\x82\x01.",
        "a name of a thing outside": b"\x80\x02Pname\n.",
        "a thing outside": b"\x80\x02NQ.",
        "a buffer outside": b"\x80\x05\x97.",
        "a state for a list": b"\x80\x02]}b.",
        "two states": b"\x80\x02" + call(named("a", "B")) + b"}b}b.",
        "a name of a name": b"\x80\x04NN\x93.",
        "a name as a value": b"\x80\x02" + SYSTEM + STOP,
        "a million dicts": b"\x80\x02(" + b"}" * 1_000_000 + b"t.",
        "many dicts": b"\x80\x02(" + b"}" * 399_000 + b"t.",
        "many sets": b"\x80\x04(" + b"\x8f" * 399_000 + b"t.",
        "many ordered dicts": b"\x80\x02"
        + named("collections", "OrderedDict")
        + b"q\x000("
        + b"h\0)R" * 133_000
        + b"t.",
        "many long names": long_names(),
        "one long name, many times": b"\x80\x04"
        + text("m" * 499)
        + text("n" * 499)
        + b"q\x010q\x000("
        + b"h\0h\1\x93" * 130_000
        + b"t.",
        "a number of four megabytes that is none": b"\x80\x02F" + b"\xff" * (4 << 20) + b"\n.",
        "four megabytes without quotes": b"\x80\x02S" + b"\xff" * (4 << 20) + b"\n.",
        "a text four times as large in memory": b"\x80\x02" + text("\U0001f600" + "x" * (5 << 20)) + STOP,
        "such texts, smaller": b"\x80\x02(" + text("\U0001f600" + "x" * (1 << 20)) * 7 + b"t.",
        "an escape that is none": b"\x80\x02S'\\d'\n.",
        "an escape of no byte": b"\x80\x02S'\\777'\n.",
        "an escape in a reference": b"\x80\x02P\\d\n.",
        "a name that cannot be printed": b"\x80\x04" + text("os\x1b[31m\n") + text("x") + b"\x93)R.",
        "a name that is half a character": b"\x80\x04X\3\0\0\0\xed\xa0\x80" + text("x") + b"\x93)R.",
        "an element for an ordered dict": b"\x80\x02" + named("collections", "OrderedDict") + b")R(NNNea.",
        "a name with an escape": b"\x80\x02" + call(b"ccollections\nOrdered\\x44ict\n") + STOP,
        **_costly(),
        "no encoding": b"\x80\x02" + call(named("_codecs", "encode"), text("x"), text("rot13")) + STOP,
    }


def values() -> dict[str, object]:
    """What old states held."""
    made = np.random.default_rng(5)
    return {
        "counters": {"epoch": 3, "step": 2**40, "loss": 0.25, "done": False, "name": "run", "parent": None},
        "nested": {"shards": [{"id": i, "seen": (i, i + 1)} for i in range(3)], "tags": {"a", "b"}},
        "numbers": [0, -1, 255, 256, 65535, 65536, 2**31 - 1, 2**31, -(2**63), 2**100, 1e300, -0.0, float("inf")],
        "text": ["", "plain", "ä€😀", "line\nbreak", "'quote\"", "\\x41"],
        "bytes": [b"", bytes(range(256)), bytearray(b"abc")],
        "sets": [set(), {1, 2}, frozenset({"x"}), (), (1,), (1, (2, (3,)))],
        "ordered": collections.OrderedDict([("b", 1), ("a", [2])]),
        "python's generator": random.Random(7).getstate(),
        "numpy's old generator": np.random.RandomState(7).get_state(),
        "numpy's generator": np.random.default_rng(7).bit_generator.state,
        "arrays of all types": {
            t: made.integers(0, 100, (2, 3)).astype(t)
            for t in [
                "b1",
                "i1",
                "i2",
                "i4",
                "i8",
                "u1",
                "u2",
                "u4",
                "u8",
                "f2",
                "f4",
                "f8",
                "c8",
                "c16",
                ">i4",
                ">f8",
                ">u2",
            ]
        },
        "orders": [np.arange(6).reshape(2, 3), np.asfortranarray(np.arange(6.0).reshape(2, 3)), np.arange(6)[::2]],
        "shapes": [np.array(5), np.zeros((0, 3), "u1"), np.ones((1, 1, 1, 2), "f4")],
        "numpy's numbers": [np.float32(2.5), np.int64(-3), np.bool_(True), np.uint8(255), np.complex64(1 + 2j)],
        "shared": (lambda a: {"x": a, "y": [a, a]})(np.arange(4)),
        "complex": [1j, complex(-0.0, 2.0)],
    }


def of_old_numpy(data: bytes) -> bytes:
    """A pickle that NumPy 2 wrote, as NumPy 1 would have written it."""
    if data[:2] in (b"\x80\x04", b"\x80\x05") and b"numpy._core." in data:
        data = data[:2] + data[11:]  # without its frame, whose length changes
        for name in (b"multiarray", b"numeric"):
            old, new = b"numpy.core." + name, b"numpy._core." + name
            data = data.replace(b"\x8c%c%s" % (len(new), new), b"\x8c%c%s" % (len(old), old))
    return data.replace(b"cnumpy._core.", b"cnumpy.core.")


def of_python_2() -> dict[str, tuple[bytes, object]]:
    """Pickles as Python 2 wrote them, with strings of bytes, and what they hold."""
    array = (b"cnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\n(I0\ntS'b'\ntR(I1\n(I2\ntcnumpy\ndtype\n"
             b"(S'i4'\nI0\n"
             b"I1\ntR(I3\nS'<'\nNNNI-1\nI-1\nI0\ntbI00\nS'\\x01\\x00\\x00\\x00\\xff\\xff\\xff\\xff'\ntb.")  # fmt: skip
    return {
        "a dict": (b"(dp0\nS'epoch'\np1\nI3\nsS'names'\np2\n(lp3\nS'a'\naVb\nas.", {"epoch": 3, "names": ["a", "b"]}),
        "an array": (array, np.array([1, -1], "i4")),
        "an object of a class": (b"ccopy_reg\n_reconstructor\n(cold\nState\nc__builtin__\nobject\nNtR(d"
                                 b"S'epoch'\nI3\nsb.",
                                 {"epoch": 3}),
    }  # fmt: skip
