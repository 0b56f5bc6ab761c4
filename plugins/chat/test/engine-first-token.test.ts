/** A short prompt is answered soon while a long one is fed: in calls of the model, not in seconds. */
import t from 'tap'
import { decoderSession } from './engine-host.js'
import { quietEnv } from './engine-kit.js'
import type { EngineSession } from '../../../kernel/api/engine.js'

const LONG = 4000
const MORE = 3
const words = (count: number, first: number): number[] =>
  Array.from({ length: count }, (_, i) => (i * 7 + first) % 40 + 10)

/** Calls of the model until the first text of a short prompt is there, as its client sees it. */
async function callsUntilText (
  session: EngineSession, prompt: number[], calls: () => number
): Promise<number> {
  const payload = { prompt, max_tokens: 1, params }
  const before = calls()
  for await (const { payload: { kind } } of session.run({ kind: 'completion', payload }, never)) {
    if (kind === 'delta') return calls() - before
  }
  throw new Error('no text came')
}

const never = new AbortController().signal
/** Greedy, and never at the end. */
const params = { temperature: 0, logit_bias: { 1: -100 } }

t.test('while a prompt of 4,000 tokens is fed and others write', async (t) => {
  const env = quietEnv()
  const calls = (): number => env.announced.length
  const shape = { positions: 4300 }
  const session = await decoderSession(t.testdir(), { shape, card: { contextLength: 4300 }, env })
  await session.warmup()
  const alone = await callsUntilText(session, words(30, 3), calls)
  const away = new AbortController()
  const writing = session.run({ kind: 'completion', payload: { prompt: words(20, 1), params } }, away.signal)
  const written = (async () => { for await (const piece of writing) void piece })()
  const long = session.run(
    { kind: 'completion', payload: { prompt: words(LONG, 2), max_tokens: 1, params } }, never)
  let ended = false
  const fed = (async () => {
    for await (const piece of long) void piece
    ended = true
  })()
  const prefills = (): number => env.announced.filter(({ label }) => label === 'prefill').length
  const soFar = prefills()
  while (prefills() < soFar + 2) await new Promise((resolve) => { setImmediate(resolve) })
  const beside = await callsUntilText(session, words(30, 4), calls)
  t.notOk(ended, 'the long prompt was still being fed')
  t.ok(beside <= alone + 2 * MORE, `${beside} calls beside the long prompt, ${alone} alone`)
  const labels = env.announced.slice(-beside).map(({ label }) => label)
  t.ok(labels.filter((label) => label === 'decode').length <= MORE, `${labels.join()}: decode steps`)
  await fed
  away.abort()
  await written
  await session.close?.()
})
