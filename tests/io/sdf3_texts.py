"""Small SDF3 texts for the tests."""

FULL = """\
<?xml version="1.0" encoding="UTF-8"?>
<!-- a chain of two -->
<sdf3 type="csdf" version="1.0">
  <applicationGraph name="pair" note="kept">
    <csdf name="pair" type="Pair">
      <actor name="a" type="A">
        <port name="o" type="out" rate="1,2"/>
      </actor>
      <actor name="b" type="B">
        <port name="i" type="in" rate="3"/>
      </actor>
      <channel name="c" srcActor="a" srcPort="o" dstActor="b" dstPort="i" initialTokens="2"/>
    </csdf>
    <csdfProperties>
      <actorProperties actor="a">
        <processor type="arm" default="true">
          <executionTime time="5"/>
          <memory><stateSize max="100"/></memory> <!-- bits -->
        </processor>
        <processor type="dsp" default="false">
          <executionTime time="4,3"/>
        </processor>
      </actorProperties>
      <actorProperties actor="b">
        <processor type="arm" default="true">
          <executionTime time="7"/>
        </processor>
      </actorProperties>
      <channelProperties channel="c">
        <tokenSize sz="16"/>
        <bufferSize sz="9" mem="0"/>
      </channelProperties>
      <graphProperties>
        <timeConstraints>
          <throughput>3e-8</throughput>
        </timeConstraints>
      </graphProperties>
    </csdfProperties>
  </applicationGraph>
  <architectureGraph name="unknown to us"/>
</sdf3>
"""


def edited(*replacements: tuple[str, str]) -> bytes:
    """Return FULL with each text replaced, which must occur."""
    text = FULL
    for old, new in replacements:
        assert old in text
        text = text.replace(old, new, 1)
    return text.encode()


def self_loop(*, rates: str = "1", time: str = "1", kind: str = "csdf") -> bytes:
    """Return an actor with a self-loop."""
    return f"""<sdf3 type="{kind}"><applicationGraph name="g"><{kind} name="g">
<actor name="a"><port name="i" type="in" rate="{rates}"/><port name="o" type="out" rate="{rates}"/>
</actor><channel name="c" srcActor="a" srcPort="o" dstActor="a" dstPort="i" initialTokens="1"/>
</{kind}><{kind}Properties><actorProperties actor="a"><processor type="p" default="true">
<executionTime time="{time}"/></processor></actorProperties>
</{kind}Properties></applicationGraph></sdf3>""".encode()
