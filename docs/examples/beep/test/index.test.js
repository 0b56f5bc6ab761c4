// @ts-check
import { fileURLToPath } from 'node:url'
import t from 'tap'
import engine from '../engine.js'

/** @type {import('svc/plugin').EngineEnv} */
const env = { progress () {}, work: async (_label, _units, call) => await call(), log () {} }
const directory = fileURLToPath(new URL('../model/', import.meta.url))
const given = { directory, backend: 'cpu', threads: 1, options: {} }
const spec = /** @type {import('svc/plugin').ModelSpec} */ (given)

/** @param {object} payload @param {AbortSignal} signal */
async function beep (payload, signal = new AbortController().signal) {
  const session = await engine.load(spec, env)
  await session.warmup()
  const chunks = []
  for await (const chunk of session.run({ kind: 'beep', payload: { ...payload } }, signal)) chunks.push(chunk)
  return chunks
}

t.test('a quarter of a second is three chunks of 0.1 s', async (t) => {
  const chunks = await beep({ seconds: 0.25 })
  t.same(chunks.map((c) => c.payload), [{ chunk_index: 0 }, { chunk_index: 1 }, { chunk_index: 2 }])
  t.same(chunks.map((c) => c.media?.byteLength), [3200, 3200, 3200])
})

t.test('a value the engine cannot honour is refused with its range', async (t) => {
  await t.rejects(beep({ seconds: 61 }), { reason: 'invalid_payload', message: /at most 60/ })
})

t.test('an aborted task ends without a chunk', async (t) => {
  t.same(await beep({ seconds: 1 }, AbortSignal.abort()), [])
})
