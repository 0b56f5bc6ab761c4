/** GGUF models on the llama.cpp library in complete nodes: damaged files, crashing engines, a full disk. */
import t from 'tap'
import { noSmallDisk, smallDisk } from '../tools/small-disk.js'
import { damagedFiles, endlessTemplate, fullDisk, killedEngine, longPrompt } from './gguf-kit.js'

/** Without llama-server in the PATH, models run on the llama.cpp library. */
const env = { PATH: '/usr/bin:/bin' }

t.test('damaged files', { timeout: 400_000 }, async (t) => { await damagedFiles(t, env, null) })
t.test('a runner that is killed in the middle of a stream', async (t) => {
  await killedEngine(t, env, null)
})
t.test('a template with an endless loop', async (t) => { await endlessTemplate(t, env) })
t.test('a prompt that is too long', async (t) => { await longPrompt(t, env) })
t.test('a full disk', { skip: noSmallDisk }, async (t) => { await fullDisk(t, env, smallDisk(t, '16m')) })
