"""Whatever is wrong with a file: one line that says what, exit code 2, and nothing written."""

import os

import pytest

from tests.cli.running import GRAPHS

GOOD = (GRAPHS / "csdf_example.xml").read_text()


def changed(old, new):
    assert old in GOOD
    return GOOD.replace(old, new, 1).encode()


BOMB = b"""<?xml version="1.0"?>
<!DOCTYPE b [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;&a;&a;">
<!ENTITY c "&b;&b;&b;&b;&b;&b;&b;&b;&b;&b;"><!ENTITY d "&c;&c;&c;&c;&c;&c;&c;&c;&c;&c;">]>
<sdf3 type="sdf">&d;</sdf3>"""
OUTSIDE = b"""<?xml version="1.0"?>
<!DOCTYPE b [<!ENTITY secret SYSTEM "file:///etc/passwd">]>
<sdf3 type="sdf" version="1.0"><applicationGraph name="&secret;"/></sdf3>"""

BAD = {
    "not XML": (b"digraph { a -> b }", "not well-formed XML"),
    "truncated": (GOOD.encode()[:700], "not well-formed XML"),
    "empty": (b"", "the file is empty"),
    "wrong root": (b"<graph/>", "the root is <graph>; expected <sdf3>"),
    "unknown type": (changed('type="csdf"', 'type="hsdf"'), "type 'hsdf'; expected sdf or csdf"),
    "no graph": (b'<sdf3 type="sdf"/>', "<sdf3> holds 0 of <applicationGraph>; expected one"),
    "missing port": (
        changed('<port name="in_alpha" type="in" rate="4,2"/>', ""),
        "channel 'alpha': actor 'b' has no port 'in_alpha'",
    ),
    "dangling channel": (
        changed('dstActor="b"', 'dstActor="z"'),
        "channel 'alpha': there is no actor 'z'",
    ),
    "two actors of one name": (
        changed('<actor name="b"', '<actor name="a"'),
        "<actor> name='a' is already on line 5",
    ),
    "two channels of one name": (
        changed('<channel name="beta"', '<channel name="alpha"'),
        "<channel> name='alpha' is already on line",
    ),
    "two ports of one name": (
        changed('name="out_a_state"', 'name="out_alpha"'),
        "<port> name='out_alpha' is already on line",
    ),
    "negative rate": (
        changed('rate="3,1"', 'rate="3,-1"'),
        "port 'out_alpha': rate '-1' is negative",
    ),
    "rate that is no number": (
        changed('rate="3,1"', 'rate="3,x"'),
        "port 'out_alpha': rate 'x' is not an integer",
    ),
    "fractional rate": (changed('rate="3,1"', 'rate="3,1.5"'), "rate '1.5' is not an integer"),
    "rates all zero": (
        changed('rate="3,1"', 'rate="0,0"'),
        "channel 'alpha': all production rates are zero",
    ),
    "several rates in an sdf file": (
        GOOD.replace("csdf", "sdf").encode(),
        "actor 'a' has 2 phases, but the file has the type sdf",
    ),
    "no execution time": (
        changed('<executionTime time="1,3"/>', ""),
        "actor 'a', processor 'p' has no execution time",
    ),
    "negative time": (changed('time="1,3"', 'time="1,-3"'), "execution time '-3' is negative"),
    "negative tokens": (
        changed('initialTokens="1"', 'initialTokens="-1"'),
        "initial tokens '-1' is negative",
    ),
    "entity bomb": (BOMB, "a DOCTYPE is refused"),
    "external entity": (OUTSIDE, "a DOCTYPE is refused"),
    "10000 levels": (b"<sdf3>" * 10_000 + b"</sdf3>" * 10_000, "not well-formed XML"),
    "not UTF-8": (
        b'<?xml version="1.0" encoding="UTF-8"?><sdf3 type="\xff"/>',
        "not well-formed XML",
    ),
}


@pytest.fixture(params=BAD)
def bad_file(request, tmp_path):
    content, complaint = BAD[request.param]
    path = tmp_path / "bad.xml"
    path.write_bytes(content)
    return path, complaint


def assert_refused(result, command, path, complaint=""):
    code, output, remarks = result
    assert (code, output) == (2, "")
    assert remarks.startswith(f"csdf {command}: {path}:")
    assert complaint in remarks
    assert remarks.endswith("\n")
    assert len(remarks.splitlines()) == 1


@pytest.mark.parametrize("command", ["analyze", "schedule"])
def test_a_bad_file_is_refused_in_one_line(run, bad_file, command):
    path, complaint = bad_file
    assert_refused(run(command, path), command, path, complaint)


def test_a_bad_file_is_not_converted(run, bad_file):
    path, complaint = bad_file
    assert_refused(run("convert", path, path.with_name("out.json")), "convert", path, complaint)
    assert list(path.parent.iterdir()) == [path]


def test_a_message_names_the_line(run, tmp_path):
    path = tmp_path / "bad.xml"
    path.write_bytes(changed('rate="3,1"', 'rate="3,-1"'))
    line = GOOD[: GOOD.index('rate="3,1"')].count("\n") + 1
    assert run("analyze", path)[2].startswith(f"csdf analyze: {path}:{line}: actor 'a'")


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("[" * 10_000, "nested too deeply"),
        ('{"format": "csdf-graph"', "not JSON"),
        ('{"format": "csdf-graph", "version": ' + "9" * 5_000 + "}", ""),
        ('{"format": "csdf-graph", "version": NaN}', "NaN is not a number"),
        ("[]", "expected an object"),
        ("null", "expected an object"),
    ],
)
def test_bad_json_is_refused_in_one_line(run, tmp_path, text, complaint):
    path = tmp_path / "bad.json"
    path.write_text(text)
    assert_refused(run("analyze", path), "analyze", path, complaint)


def test_a_missing_file_is_refused(run, tmp_path):
    path = tmp_path / "none.xml"
    assert_refused(
        run("analyze", path), "analyze", path, "cannot be read: No such file or directory"
    )


def test_a_folder_without_a_graph_is_refused(run, tmp_path):
    assert_refused(run("analyze", tmp_path), "analyze", tmp_path, "no graph in this folder")


@pytest.mark.skipif(os.geteuid() == 0, reason="the superuser may read everything")
def test_a_forbidden_file_is_refused(run, tmp_path):
    path = tmp_path / "secret.xml"
    path.write_text(GOOD)
    path.chmod(0)
    assert_refused(run("analyze", path), "analyze", path, "cannot be read: Permission denied")


def test_a_file_of_200_megabytes_is_refused(run, tmp_path):
    path = tmp_path / "large.xml"
    with path.open("wb") as file:
        file.truncate(200 * 10**6)
    assert_refused(run("analyze", path), "analyze", path, "larger than the limit of 64 MiB")


def test_a_limit_can_be_given_for_large_graph_files(run, tmp_path):
    path = tmp_path / "graph.xml"
    path.write_text(GOOD + " " * 1000)
    assert run("analyze", path, "--file-limit", "1MB")[0] == 0
    limited = run("analyze", path, "--file-limit", "1000")
    assert_refused(limited, "analyze", path, "larger than the limit of 1000 bytes")


@pytest.mark.parametrize(
    "words",
    [
        ("convert", GRAPHS / "deadlocked.xml", "{missing}/out.json"),
        ("generate", "1", "-o", "{missing}/out.xml"),
        ("schedule", GRAPHS / "csdf_example.xml", "--trace", "{missing}/trace.json"),
        ("buffers", "no-such-file.xml", "--schedule", "{missing}/schedule.json"),
        ("pareto", "no-such-file.xml", "--plot", "{missing}/front.svg"),
        ("report", "no-such-file.xml", "-o", "{missing}/page.html"),
    ],
    ids=lambda words: words[0],
)
def test_an_output_in_a_missing_folder_is_refused(run, tmp_path, words):
    missing = tmp_path / "missing"
    code, output, remarks = run(*(str(word).format(missing=missing) for word in words))
    assert (code, output) == (2, "")
    assert remarks.splitlines()[0].endswith(f"there is no folder {str(missing)!r}")
    assert len(remarks.splitlines()) == 1
    assert not missing.exists()


def test_an_unknown_output_format_is_refused(run, tmp_path):
    code, output, remarks = run("convert", GRAPHS / "deadlocked.xml", tmp_path / "out.txt")
    assert (code, output) == (2, "")
    assert "cannot tell the format from '.txt'; expected .xml, .json, .dot" in remarks
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("suffix", ["json", "cfg"])
def test_a_network_in_another_encoding_is_refused_with_its_byte(run, tmp_path, suffix):
    path = tmp_path / f"net.{suffix}"
    path.write_bytes(b"{ \xe9")
    code, _, remarks = run("cnn", "show", path)
    assert code == 2
    assert f"{path}: not text in UTF-8: found 0xe9 at byte 2\n" in remarks


def test_a_network_after_a_byte_order_mark_is_read(run, tmp_path):
    # Editors on Windows begin a text so.
    path = tmp_path / "net.cfg"
    path.write_bytes(
        b"\xef\xbb\xbf[net]\nheight=8\nwidth=8\nchannels=1\n[maxpool]\nsize=2\nstride=2\n"
    )
    assert run("cnn", "show", path)[0] == 0


def test_a_missing_project_of_hls4ml_is_missing(run, tmp_path):
    code, _, remarks = run("fifo", "hls4ml", tmp_path / "absent")
    assert code == 2
    assert remarks.endswith("absent: cannot be read: No such file or directory\n")


@pytest.mark.parametrize(
    ("folder", "complaint"),
    [
        ("", "the name of the folder to write into is empty"),
        ("file", "file: is a file; expected a folder"),
        ("-", "-: expected the name of a folder"),
        ("file/below", "file/below: cannot be made: "),
        ("a\0b", "no folder has such a name"),
    ],
)
@pytest.mark.parametrize("command", [("deploy",), ("codegen",)])
def test_a_folder_that_cannot_be_is_refused_before_the_work(
    run, tmp_path, monkeypatch, command, folder, complaint
):
    # The model is not read: it is not there.
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("a file")
    code, output, remarks = run(*command, "absent.xml", "-o", folder)
    assert (code, output) == (2, "")
    assert complaint in remarks
    assert os.listdir(tmp_path) == ["file"]


@pytest.mark.parametrize(
    "words",
    [
        ("fit",),
        ("plan", "arena"),
        ("plan", "reuse", "--ram", "20kB"),
        ("report", "-o", "page.html"),
    ],
)
def test_a_folder_of_its_name_hides_no_built_in_network(run, tmp_path, monkeypatch, words):
    # As `csdf deploy samos_example -o samos_example` makes it.
    monkeypatch.chdir(tmp_path)
    (tmp_path / "samos_example").mkdir()
    assert run(*words, "samos_example")[0] == 0


def test_a_file_without_a_name_is_refused(run):
    code, _, remarks = run("buffers", GRAPHS / "csdf_example.xml", "-o", "")
    assert (code, remarks) == (2, "csdf buffers: the name of the file to write is empty\n")


@pytest.mark.parametrize(
    "words",
    [
        ("analyze",),
        ("schedule",),
        ("sensitivity",),
        ("map", "--processors", "2"),
        ("map", "--period", "9"),
        ("latency", "--source", "a", "--sink", "b"),
        ("latency", "--source", "a", "--sink", "b", "--period", "9"),
        ("sensitivity", "--parameter", "a"),
        ("sensitivity", "--parameter", "a_to_b"),
    ],
    ids=" ".join,
)
def test_a_deadlock_is_a_no_with_its_cycle_whatever_is_asked(run, words):
    # README: 1 answered "no", 2 wrong usage or an unreadable file.
    command, *options = words
    code, output, remarks = run(command, GRAPHS / "deadlocked.xml", *options)
    assert code == 1
    assert "deadlock" in output + remarks
