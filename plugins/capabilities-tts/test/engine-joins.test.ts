import t from 'tap'
import { PieceLengths, type Family, type SpeechUnit } from '../engine/family.js'
import { pauseAfter } from '../engine/phonemes.js'
import { speak } from '../engine/speech.js'
import { tone } from './engine-kit.js'

const RATE = 16_000
const HUSH = 0.001
const request = {
  text: '', voice: 'v', language: 'ipa', speed: 1, temperature: 1, seed: undefined, maxSymbols: 99,
  pace: new PieceLengths(1, 1)
}

const seconds = (count: number, value = HUSH): Float32Array => new Float32Array(count * RATE).fill(value)

/** A voice whose units are the given sounds, in pieces of `length` samples. */
function voiceOf (sounds: Float32Array[], pauses: number[], length: number): Family {
  const units = sounds.map((_, index): SpeechUnit =>
    ({ ids: [], symbols: 1, pauseSeconds: pauses[index] ?? 0, index }))
  return {
    sampleRate: RATE, voices: [], defaultVoice: 'v', seeded: true, streams: true,
    limits: { speed: { min: 1, max: 2 }, temperature: undefined },
    findVoice: (id) => id, findLanguage: () => 'ipa', languages: () => ['ipa'],
    prepare: () => units,
    async * synth ({ index }) {
      const sound = sounds[index]!
      for (let at = 0; at < sound.length; at += length) yield sound.subarray(at, at + length)
    },
    warmFront: () => {}, close: async () => {}
  }
}

async function spoken (voice: Family, speed = 1): Promise<{ samples: Int16Array, firstSeconds: number }> {
  const task = { request: { ...request, speed }, encoding: 'pcm' as const, interval: 1, loudness: null }
  const parts: Buffer[] = []
  let firstSeconds = 0
  for await (const { media, timing } of speak(voice, task, 'm', new AbortController().signal)) {
    firstSeconds ||= timing?.durationSeconds ?? 0
    parts.push(Buffer.from(media ?? []))
  }
  const bytes = Buffer.concat(parts)
  return { samples: new Int16Array(Uint8Array.from(bytes).buffer), firstSeconds }
}

/** Lengths in milliseconds of sound (positive) and silence (negative, from 5 ms on), in order. */
function runs (samples: Int16Array): number[] {
  const found: number[] = []
  let start = 0
  let last = -1
  const add = (from: number, to: number, sign: number): void => {
    if (to > from) found.push(sign * Math.round((to - from) / RATE * 1000))
  }
  samples.forEach((v, i) => {
    if (Math.abs(v) < 1000) return
    if (i - last - 1 > RATE * 0.005) {
      add(start, last + 1, 1)
      add(last + 1, i, -1)
      start = i
    }
    last = i
  })
  add(start, last + 1, 1)
  add(last + 1, samples.length, -1)
  return found
}

const near = (found: number[], expected: number[]): boolean =>
  found.length === expected.length && found.every((ms, i) => Math.abs(ms - expected[i]!) <= 2)

const sound = (before: number, length: number, after: number): Float32Array =>
  Float32Array.from([...seconds(before), ...tone(length * RATE, RATE), ...seconds(after)])

t.test('silence at both ends of a unit is cut to 20 ms, pauses of marks stay', async (t) => {
  const inside = Float32Array.from([...sound(0.3, 0.2, 0.5), ...sound(0, 0.2, 0.4)])
  const sounds = [inside, sound(0.35, 0.3, 0.5), sound(0, 0.1, 0), sound(0.01, 0.2, 0.3)]
  const expected = [-20, 200, -500, 200, -240, 300, -380, 100, -10, 200, -20]
  for (const length of [160, 1000, 7919, RATE * 9]) {
    const { samples } = await spoken(voiceOf(sounds, [0.2, 0.36, 0], length))
    t.ok(near(runs(samples), expected), `pieces of ${length}: ${runs(samples).join(' ')}`)
  }
  const fast = await spoken(voiceOf(sounds, [0.2, 0.36, 0], 1000), 2)
  const shorter = [-20, 200, -500, 200, -140, 300, -200, 100, -10, 200, -20]
  t.ok(near(runs(fast.samples), shorter), 'at double speed')
})

t.test('the first chunk leaves with the first piece that has sound', async (t) => {
  const { firstSeconds } = await spoken(voiceOf([sound(0.15, 2, 0)], [], RATE * 0.1))
  t.ok(Math.abs(firstSeconds - 0.07) < 0.002, `${firstSeconds} s`)
})

t.test('a unit without any sound stays', async (t) => {
  const { samples } = await spoken(voiceOf([seconds(1), sound(0.3, 0.2, 0)], [], 1000))
  t.ok(near(runs(samples), [-1020, 200]), runs(samples).join(' '))
})

t.test('pauses by the last mark of a unit', async (t) => {
  const pause = (phonemes: string, sentenceEnd = false): number => pauseAfter({ phonemes, sentenceEnd })
  t.equal(pause('wˈʌn'), 0)
  for (const mark of ',;:') t.equal(pause(`wˈʌn${mark}`), pause('wˈʌn,'), mark)
  for (const mark of '.?!') t.equal(pause(`wˈʌn${mark}`), pause('wˈʌn', true), mark)
  t.ok(pause('wˈʌn,') > 0.1 && pause('wˈʌn.') > pause('wˈʌn,'))
})
