/** Kills the runner with SIGKILL in each of its phases and checks what clients see. */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { values } from './api-kit.js'
import { tinyCard } from '../../llama-cpp/test/embedded-kit.js'
import { tinyModel } from '../../llama-cpp/test/gguf-kit.js'
import { startReal, withoutBuild, type RealRunner } from './real-runner-kit.js'

const MODEL = 'test/tiny'
const asked = { model: MODEL, prompt: 'hello', max_tokens: 8, temperature: 0 }

async function start (t: Test, killIn: readonly string[] = []): Promise<RealRunner & { killed: string[] }> {
  const directory = t.testdir()
  writeFileSync(join(directory, 'tiny.gguf'), tinyModel())
  const card = tinyCard({ modelId: MODEL })
  const killed: string[] = []
  const real = await startReal(t, {
    card, directory,
    onStatus (status, pid) {
      const [kind = ''] = Object.keys(status)
      if (!killIn.includes(kind) || killed.includes(kind)) return
      killed.push(kind)
      process.kill(pid(), 'SIGKILL')
    }
  })
  return { ...real, killed }
}

const post = async ({ rig }: RealRunner, more: object, headers = {}) =>
  await rig.inject({ method: 'POST', url: '/v1/completions', payload: { ...asked, ...more }, headers })

/** Repeats a request until the runner serves again; allows no_instance and instance_lost until then. */
async function serves (t: Test, real: RealRunner): Promise<void> {
  let answer = await post(real, {})
  while (/"reason":"(no_instance|instance_lost)"/.test(answer.body)) answer = await post(real, {})
  t.equal(answer.statusCode, 200, answer.body)
  t.match(answer.json(), { choices: [{ finish_reason: /stop|length/ }] })
}

t.test('while it starts, loads and warms up', { skip: withoutBuild }, async (t) => {
  for (const phases of [['RunnerConnected', 'RunnerLoading'], ['RunnerLoaded', 'RunnerWarmingUp']]) {
    await t.test(phases.join(' and '), async (t) => {
      const real = await start(t, phases)
      const early = await post(real, {})
      t.equal(early.statusCode, 503, early.body)
      t.match(early.json(), { error: { reason: 'no_instance', retryable: true } })
      await real.ready()
      t.same(real.killed, phases)
      await serves(t, real)
    })
  }
})

/** An answer that cannot stop early (end tokens are banned) and lasts longer than the test needs to kill. */
const long = { max_tokens: 120, logit_bias: { 256: -100, 257: -100, 258: -100 }, n: 8 }

t.test('while it works', { skip: withoutBuild }, async (t) => {
  const real = await start(t)
  await real.ready()
  const first = real.pid()
  const answer = await fetch(`${real.url}/v1/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ ...asked, ...long, stream: true })
  })
  t.equal(answer.status, 200)
  let text = ''
  for await (const part of answer.body as unknown as AsyncIterable<Uint8Array>) {
    if (text === '') process.kill(first, 'SIGKILL')
    text += Buffer.from(part).toString()
  }
  t.match(values(text).at(-1), { error: { reason: 'instance_lost', retryable: true } }, 'one event')
  t.notMatch(text, /\[DONE\]/)
  await real.ready()
  t.not(real.pid(), first)
  await serves(t, real)

  const second = real.pid()
  process.kill(second, 'SIGSTOP')
  const whole = post(real, {})
  const waiting = async (): Promise<boolean> => {
    const { tasks } = (await real.rig.inject({ url: '/state' })).json() as { tasks: object }
    return JSON.stringify(tasks).includes('Running')
  }
  while (!await waiting()) await new Promise((resolve) => { setImmediate(resolve) })
  process.kill(second, 'SIGKILL')
  const lost = await whole
  t.equal(lost.statusCode, 500, 'before its first token')
  t.match(lost.json(), { error: { reason: 'instance_lost', retryable: true } })
  await real.ready()
  await serves(t, real)
})
