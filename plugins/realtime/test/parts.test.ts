/** Clauses, sound formats, partial texts and slow clients. */
import t from 'tap'
import { manualClock } from '../../../kernel/testing/index.js'
import { SoundEncoder, toPcm } from '../audio.js'
import { ClauseCutter, heardText } from '../clauses.js'
import { EventSocket } from '../event-socket.js'
import { bench, segment, sound } from './kit.js'
import type { RouteSocket } from '../../../kernel/index.js'

t.test('clauses end where a voice pauses', async (t) => {
  const cases: [string, string[]][] = [
    ['Well, hello there, friend. Fine!', ['Well, hello there,', ' friend. Fine!']],
    ['Dr. Smith paid 3.50 for 1. bread? ', ['Dr. Smith paid 3.50 for 1. bread?', ' ']],
    ['今日は。いい天気。', ['今日は。', 'いい天気。']],
    [`${'word '.repeat(15)}end`, ['word '.repeat(12), 'word word word end']],
    ['a'.repeat(130), ['a'.repeat(60), 'a'.repeat(70)]]
  ]
  for (const [text, clauses] of cases) {
    const cutter = new ClauseCutter()
    const found = [...text].flatMap((character) => cutter.push(character))
    t.same([...found, cutter.finish()].filter((one) => one !== ''), clauses, text)
  }
  const spoken = [
    { text: 'One two. ', startMs: 0, endMs: 100 }, { text: 'A b c d.', startMs: 100, endMs: 200 }]
  t.same([0, 50, 100, 150, 200].map((ms) => heardText(spoken, ms)),
    ['', 'One', 'One two.', 'One two. A b', 'One two. A b c d.'])
})

t.test('G.711 in both laws, and other rates', async (t) => {
  const laws = [['audio/pcmu', [0x00, 0x80, 0xff, 0xe0]], ['audio/pcma', [0x2a, 0xaa, 0xd5, 0x55]]] as const
  for (const [format, codes] of laws) {
    const pcm = toPcm(format, Uint8Array.from(codes))
    const levels = [...new Int16Array(pcm.buffer)]
    t.same(levels, format === 'audio/pcmu' ? [-32124, 32124, 0, 372] : [-32256, 32256, 8, -8])
    const encoder = new SoundEncoder(format, 8000)
    t.same([...Buffer.concat([encoder.push(pcm), encoder.finish()])], codes, 'the same codes again')
  }
  const encoder = new SoundEncoder('audio/pcm', 22_050)
  const tone = Int16Array.from({ length: 22_050 }, (_, i) => 10_000 * Math.sin(i / 8))
  const made = Buffer.concat([encoder.push(new Uint8Array(tone.buffer)), encoder.finish()])
  t.equal(made.byteLength, 48_000)
})

t.test('deltas have only words that stay', async (t) => {
  const { open, script } = await bench(t)
  const client = await open('?intent=transcription')
  script.listen = async function * () {
    yield { event: 'speech_started', at: 0 }
    for (const text of [' I scream', ' Ice cream is', ' Ice cream is good', ' Ice cream is good for']) {
      yield { event: 'partial', text, start: 0 }
    }
    yield segment(' Ice cream is good.', { final: true })
  }
  client.send('input_audio_buffer.append', { audio: sound(100) })
  await client.next('conversation.item.input_audio_transcription.completed')
  const deltas = client.events.filter(({ type }) => type.endsWith('transcription.delta'))
  t.same(deltas.map(({ delta }) => delta), ['Ice cream is', ' good', '.'])
})

t.test('a client that does not read, or is silent, is dropped', async (t) => {
  const clock = manualClock()
  const listeners = new Map<string, (...args: unknown[]) => void>()
  const closed: number[] = []
  const ws: RouteSocket = {
    bufferedAmount: 300_000, readyState: 1, ping () {}, pause () {}, resume () {}, terminate () {},
    send () {}, close: (code) => { closed.push(code) },
    on: (event: string, fn: never) => { listeners.set(event, fn) }
  }
  const flooded = new EventSocket(ws, clock, () => {})
  for (let i = 0; i < 9; i++) flooded.send('response.output_audio.delta', { delta: 'a'.repeat(1024 * 1024) })
  t.same(closed, [4408])
  const idle = new EventSocket({ ...ws, bufferedAmount: 0 }, clock, () => {})
  for (let half = 0; half < 62; half++) {
    listeners.get('pong')!()
    await clock.advance(30_000)
  }
  t.equal(closed.at(-1), 4410)
  idle.send('error', {})
})
