"""The wyoming package against a node's port: use_wyoming.py PORT [VOICE_ONLY]; prints one line of JSON."""
import asyncio, json, sys
from wyoming.asr import Transcribe, Transcript, TranscriptChunk, TranscriptStart, TranscriptStop
from wyoming.audio import AudioChunk, AudioStart, AudioStop
from wyoming.client import AsyncTcpClient
from wyoming.error import Error
from wyoming.info import Describe, Info
from wyoming.ping import Ping, Pong
from wyoming.tts import (Synthesize, SynthesizeChunk, SynthesizeStart, SynthesizeStop, SynthesizeStopped,
                         SynthesizeVoice)

TEXT = 'The quick brown fox jumps over the lazy dog. It was a fine morning.'


async def until(client, *kinds):
    events = []
    while True:
        event = await asyncio.wait_for(client.read_event(), 60)
        if event is None:
            raise EOFError([e.type for e in events])
        events.append(event)
        if any(kind.is_type(event.type) for kind in kinds):
            return events


def sound(events):
    chunks = [AudioChunk.from_event(e) for e in events if AudioChunk.is_type(e.type)]
    start = AudioStart.from_event(next(e for e in events if AudioStart.is_type(e.type)))
    assert all((c.rate, c.width, c.channels) == (start.rate, 2, 1) for c in chunks)
    return start.rate, b''.join(c.audio for c in chunks)


async def main(port):
    said = {}
    async with AsyncTcpClient('127.0.0.1', port) as client:
        await client.write_event(Ping(text='x').event())
        said['pong'] = Pong.from_event((await until(client, Pong))[-1]).text
        await client.write_event(Describe().event())
        info = Info.from_event((await until(client, Info))[-1])
        voice = info.tts[0].voices[0]
        said['voice'] = voice.name
        said['asr'] = [model.name for program in info.asr for model in program.models]
        await client.write_event(Synthesize(text=TEXT, voice=SynthesizeVoice(name=voice.name)).event())
        rate, whole = sound(await until(client, AudioStop, Error))
        said['seconds'] = len(whole) / 2 / rate
        await client.write_event(SynthesizeStart(voice=SynthesizeVoice(name=voice.name)).event())
        for at in range(0, len(TEXT), 7):
            await client.write_event(SynthesizeChunk(text=TEXT[at:at + 7]).event())
        await client.write_event(Synthesize(text=TEXT).event())
        await client.write_event(SynthesizeStop().event())
        events = await until(client, SynthesizeStopped, Error)
        said['streamed'] = len(sound(events)[1]) / 2 / rate
        said['stops'] = sum(AudioStop.is_type(e.type) for e in events)
        await client.write_event(Transcribe(language='en').event())
        await client.write_event(AudioStart(rate=rate, width=2, channels=1).event())
        for at in range(0, len(whole), 2048):
            await client.write_event(AudioChunk(rate=rate, width=2, channels=1, audio=whole[at:at + 2048]).event())
        await client.write_event(AudioStop().event())
        events = await until(client, TranscriptStop, Error)
        if Error.is_type(events[-1].type):
            said['text'] = Error.from_event(events[-1]).code
        else:
            said['text'] = Transcript.from_event(next(e for e in events if Transcript.is_type(e.type))).text
            chunks = [TranscriptChunk.from_event(e).text for e in events if TranscriptChunk.is_type(e.type)]
            said['chunks'] = ''.join(chunks).strip() == said['text'] and TranscriptStart.is_type(events[0].type)
    async with AsyncTcpClient('127.0.0.1', port) as client:
        await client.write_event(Synthesize(text='Hi', voice=SynthesizeVoice(name='nobody')).event())
        said['error'] = Error.from_event((await until(client, Error, AudioStop))[-1]).code
        said['closed'] = await client.read_event() is None
    print(json.dumps(said))


asyncio.run(main(int(sys.argv[1])))
