/** A real llama.cpp on several devices of a donor, whose rpc-server presents this CPU as several devices. */
import { spawn } from 'node:child_process'
import { connect } from 'node:net'
import { join } from 'node:path'
import t from 'tap'
import { freePort } from '../../plugins/runners/openai/program.js'
import { ask, until, type TestCase } from '../../plugins/llama-cpp/test/llama-kit.js'
import { cmdline } from '../node/proc.js'
import { loaded, generatedModel, programs, skipGenerated, skipStories, storyteller } from './kit.js'

const TASK = { prompt: 'Once upon a time', max_tokens: 60, temperature: 0 }

/** Starts an rpc-server with `devices` devices; returns its address. */
async function lender (t: TestCase, devices: number): Promise<string> {
  const port = await freePort()
  const names = Array.from({ length: devices }, () => 'CPU').join()
  const child = spawn(join(programs, 'ggml-rpc-server'),
    ['--host', '127.0.0.1', '--port', String(port), '--device', names], { stdio: 'ignore' })
  t.teardown(() => { child.kill('SIGKILL') })
  let listens = false
  await until('it listens', () => {
    const socket = connect(port, '127.0.0.1', () => { listens = true; socket.destroy() })
    socket.on('error', () => {})
    return listens
  })
  return `127.0.0.1:${port}`
}

t.test('shares of several devices', { skip: skipGenerated || skipStories }, async (t) => {
  const stories = storyteller()
  const made = generatedModel(t, { vocabulary: 'llama-spm', shape: { layers: 6 } }, { nLayers: 6 })
  for (const [model, layers] of [[stories, 5], [made, 6]] as const) {
    const alone = await loaded(t, model)
    const { text } = await ask(alone.session, 'completion', TASK)
    await alone.session.close?.()
    t.ok(text)
    const cases: [string, boolean, number, (address: string) => object[], string][] = [
      ['two GPUs of a donor', false, 2,
        (address) => [{ address, layers: layers - 1, gpus: [2, layers - 3] }], `2,${layers - 2}`],
      ['what they cannot hold is on its CPU', false, 3,
        (address) => [{ address, layers: layers - 1, gpus: [1, 1] }], `1,1,${layers - 2}`],
      ['a tensor rank of two GPUs', true, 2,
        (address) => [{ address, layers, gpus: [layers - 1, 1] }], '1,0.']
    ]
    for (const [title, tensor, devices, donors, shares] of cases) {
      const address = await lender(t, devices)
      const rpc = { tensor, layers: tensor ? layers : 1, donors: donors(address) }
      const { session, pid } = await loaded(t, model, { rpc })
      t.match(cmdline(pid), `--tensor-split ${shares}`, title)
      t.equal((await ask(session, 'completion', TASK)).text, text, `${title}: the same text`)
      await session.close?.()
    }
  }
})
