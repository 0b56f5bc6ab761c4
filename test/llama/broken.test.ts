/** GGUF models on llama-server in complete nodes: damaged files and crashing servers. */
import { join } from 'node:path'
import t from 'tap'
import { damagedFiles, killedEngine, longPrompt } from '../node/gguf-kit.js'
import { noPrograms as skip, programs } from './kit.js'

const server = 'llama-server'
const env = { SVC_LLAMA_SERVER_BIN: join(programs, server) }

t.test('damaged files', { skip, timeout: 400_000 }, async (t) => { await damagedFiles(t, env, server) })
t.test('a server killed in the middle of a stream', { skip }, async (t) => {
  await killedEngine(t, env, server)
})
t.test('a prompt that is too long', { skip }, async (t) => { await longPrompt(t, env) })
