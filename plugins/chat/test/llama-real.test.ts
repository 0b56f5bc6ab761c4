/** The engine with a real llama.cpp server, where one is given, and a small real model. */
import '../../runners/test/process-plain-spawn.js'
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import t from 'tap'
import engine from '../llama/index.js'
import { ask, cardOf, chunksOf, folder, notingEnv } from './llama-kit.js'

const SHARED = process.env['SVC_TEST_SHARED'] ?? fileURLToPath(new URL('../../../../shared', import.meta.url))
const DIRECTORY = join(SHARED, 'data', 'stories260K')
const serverBinary = process.env['SVC_LLAMA_SERVER_BIN']
const skip = serverBinary === undefined
  ? 'needs a llama.cpp server: set SVC_LLAMA_SERVER_BIN to its absolute path'
  : existsSync(DIRECTORY) ? false : `needs the model files of ${SHARED}, which is absent`

t.test('a real server', { skip, timeout: 110_000 }, async (t) => {
  const files = [{ path: 's260k.gguf', role: 'weights', bytes: 1_185_344 }]
  const shape = { nLayers: 5, kvHeads: 4, headSize: 8, contextLength: 256 }
  const card = cardOf({ files, totalBytes: 1_185_344, ...shape })
  process.chdir(folder(t))
  const options = { serverBinary, max_batch: 2 }
  const spec = { card, directory: DIRECTORY, backend: 'cpu', threads: 1, options }
  const session = await engine.load(spec, notingEnv())
  t.teardown(() => session.close?.())
  await session.warmup()
  const greedy = { prompt: 'Once upon a time', max_tokens: 20, params: { temperature: 0 } }
  const { text, done } = await ask(session, 'completion', greedy)
  t.match(text, /^, there was a /)
  t.match(done, { finish_reason: 'length', usage: { completion_tokens: 20 } })
  t.equal((await ask(session, 'completion', greedy)).text, text, 'the same again')
  const [tokens] = await chunksOf(session, 'tokenize', { prompt: 'Once upon' })
  const [back] = await chunksOf(session, 'detokenize', { tokens: tokens?.payload['tokens'] })
  t.match(back?.payload['text'], /Once upon/)
  const long = { prompt: 'Once upon a time '.repeat(400) }
  await t.rejects(ask(session, 'completion', long), { message: /^context_length_exceeded/ })
  const grammar = { kind: 'schema', schema: { type: 'integer' } }
  const json = { ...greedy, params: { temperature: 0, grammar } }
  t.match((await ask(session, 'completion', json)).text, /^-?\d/)
  const params = { logprobs: true, top_logprobs: 2 }
  const { pieces } = await ask(session, 'completion', { ...greedy, params })
  t.match(pieces.find((piece) => piece['kind'] === 'delta'), { tokens: [{ top: [{}, {}] }] })
})
