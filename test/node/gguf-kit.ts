/** Tests for a real node with valid and damaged GGUF models, on either llama.cpp driver. */
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { stringify } from 'yaml'
import { DAMAGED } from '../../plugins/llama-cpp/test/damaged.js'
import { tinyCard } from '../../plugins/llama-cpp/test/embedded-kit.js'
import { tinyModel } from '../../plugins/llama-cpp/test/gguf-kit.js'
import { ask, open, refusal } from './http.js'
import { figure, fixture, folder, inTime, placeOn, secondsSince, startNode, until } from './kit.js'
import { cmdline, descendants } from './proc.js'
import type { Test } from 'tap'
import type { TestNode } from './kit.js'

const WHOLE = 'test/whole'
/** Logit biases against all end tokens, so an answer does not end. */
const ENDLESS = { 256: -100, 257: -100, 258: -100 }
const CONTEXT = 4096

interface State {
  runners: Record<string, Record<string, { errorMessage?: string }>>
  instances: Record<string, Record<string, { shardAssignments: { modelId: string } }>>
  instanceFailures: { modelId: string, errorCode: string, errorMessage: string }[]
}
const stateOf = async (node: TestNode): Promise<State> => (await ask(node, '/state')).json as State

/** A node with a valid model; `others` are additional models by name, with their files. */
async function modelsNode (
  t: Test, env: Record<string, string>, others: Record<string, Uint8Array> = {}, home?: string
): Promise<TestNode> {
  const models = folder(t)
  const files = { whole: tinyModel({ context: CONTEXT }), ...others }
  for (const [name, file] of Object.entries(files)) {
    mkdirSync(join(models, name))
    writeFileSync(join(models, name, 'tiny.gguf'), file)
    const at = { path: 'tiny.gguf', role: 'weights', bytes: file.length }
    const card = tinyCard({
      modelId: `test/${name}`, files: [at], totalBytes: file.length, contextLength: CONTEXT
    })
    writeFileSync(join(models, name, 'card.yaml'), stringify(card))
  }
  return await startNode(t, {
    env: { ...env, TEST_MODELS: pathToFileURL(`${models}/`).href },
    config: { plugins: { 'test-models': { module: fixture('models.mjs') }, placement: { autoplace: [] } } },
    ...home === undefined ? {} : { home }
  })
}

/** Asks the valid model; undefined if it fails. */
async function says (node: TestNode): Promise<string | undefined> {
  const body = { model: WHOLE, prompt: 'once', max_tokens: 8, temperature: 0 }
  const answer = await ask(node, '/v1/completions', { body })
  return answer.status === 200
    ? (answer.json as { choices: { text: string }[] }).choices[0]!.text : undefined
}

/** Checks that a llama-server process runs under the runners, or, if `program` is null, that none does. */
async function drivenBy (t: Test, node: TestNode, program: string | null): Promise<void> {
  const found = node.runners().flatMap(descendants).filter((pid) => cmdline(pid).includes('llama-server'))
  t.equal(found.length > 0, program !== null, program ?? 'the library')
}

const FAILED =
  /cannot load test\/damaged|ended by SIG\w+ while loading|llama-server (exited with|was ended by).*: \w/

/** Each kind of damage gives an error that names the damage, and the node still serves another model. */
export async function damagedFiles (
  t: Test, env: Record<string, string>, program: string | null
): Promise<void> {
  const kinds = Object.keys(DAMAGED)
  const nameOf = (i: number): string => `damaged-${i}`
  const node = await modelsNode(t, env,
    Object.fromEntries(Object.values(DAMAGED).map((file, i) => [nameOf(i), file])))
  await placeOn(node, WHOLE)
  await drivenBy(t, node, program)
  const text = await says(node)
  t.ok(text)
  for (const [i] of kinds.entries()) {
    const body = { model_id: `test/${nameOf(i)}`, force: true }
    const placed = await ask(node, '/place_instance', { body })
    t.equal(placed.status, 200, placed.text)
  }
  for (const [i, kind] of kinds.entries()) {
    const modelId = `test/${nameOf(i)}`
    const failure = await until(`${kind} to fail`, async () =>
      (await stateOf(node)).instanceFailures.find((one) => one.modelId === modelId), { seconds: 240 })
    t.comment(`${kind}: ${failure.errorMessage}`)
    t.equal(failure.errorCode, 'load_failed')
    t.match(failure.errorMessage, FAILED, kind)
    t.notMatch(failure.errorMessage, /gives no reason|\/tiny\.gguf|\/tmp\/|its last lines/, kind)
    const asked = await ask(node, '/v1/completions', { body: { model: modelId, prompt: 'x' } })
    t.match([asked.status, refusal(asked)], [503, { reason: 'no_instance' }], kind)
  }
  const { instances, runners } = await stateOf(node)
  const marked = Object.values(runners).filter((status) => 'RunnerFailed' in status).length
  t.equal(marked, kinds.length, 'each is marked')
  t.equal(Object.keys(instances).length, kinds.length + 1)
  t.equal((await ask(node, '/healthz')).status, 200)
  t.equal(await says(node), text, 'the whole one answers as before')
}

/** Killing an engine in the middle of a stream ends the stream with one error event; the engine restarts. */
export async function killedEngine (
  t: Test, env: Record<string, string>, program: string | null
): Promise<void> {
  const node = await modelsNode(t, env)
  await placeOn(node, WHOLE)
  await drivenBy(t, node, program)
  const text = await says(node)
  const [runner] = node.runners()
  const victim = program === null ? runner!
    : descendants(runner!).find((pid) => cmdline(pid).includes(program))!
  const body = { model: WHOLE, prompt: 'once', stream: true, max_tokens: 4000, logit_bias: ENDLESS }
  const stream = await open(node, '/v1/completions', { body })
  let came = ''
  let killedAt = 0
  for await (const bytes of stream) {
    came += String(bytes)
    if (killedAt === 0 && came.includes('"text":"')) {
      process.kill(victim, 'SIGKILL')
      killedAt = performance.now()
    }
  }
  const told = secondsSince(killedAt)
  const errors = came.split('\n').filter((line) => line.startsWith('data: ') && line.includes('"error"'))
  t.equal(errors.length, 1, 'one event')
  t.match(JSON.parse(errors[0]!.slice(6)), { error: { reason: 'instance_lost', retryable: true } })
  t.notMatch(errors[0], /\/tmp\/|\.gguf|last lines/, 'without paths and logs')
  t.notMatch(came, '[DONE]')
  const again = await until('it to answer as before', async () => await says(node) === text)
  const back = secondsSince(killedAt)
  figure(t, 'an engine killed in a stream', again && inTime(told, 0.5) && inTime(back, 10), { told, back })
}

/** A prompt larger than the context is refused with the text and the numbers that clients parse. */
export async function longPrompt (t: Test, env: Record<string, string>): Promise<void> {
  const node = await modelsNode(t, env)
  await placeOn(node, WHOLE)
  const content = 'x'.repeat(CONTEXT + 1)
  for (const [path, more] of [['/v1/completions', { prompt: content }],
    ['/v1/chat/completions', { messages: [{ role: 'user', content }] }]] as const) {
    for (const stream of [false, true]) {
      const answer = await ask(node, path, { body: { model: WHOLE, stream, ...more } })
      t.equal(answer.status, 400, answer.text)
      t.match(refusal(answer), {
        reason: 'context_length_exceeded', details: { prompt_tokens: Number, context_length: CONTEXT },
        message: new RegExp('context_length_exceeded: this model\'s maximum context length is ' +
          `${CONTEXT} tokens.* the prompt for test/whole has 4\\d{3} tokens`)
      })
    }
  }
}

/** A template with an endless loop fails only the request that needs it. */
export async function endlessTemplate (t: Test, env: Record<string, string>): Promise<void> {
  const loop = (inner: string): string => `{% for i in range(99999) %}${inner}{% endfor %}`
  const template = `{% if messages[0].content == 'x' %}${loop(loop('x'))}{% endif %}`
  const file = tinyModel({ context: CONTEXT, metadata: { 'tokenizer.chat_template': template } })
  const node = await modelsNode(t, env, { endless: file })
  await placeOn(node, 'test/endless')
  const messages = [{ role: 'user', content: 'x' }]
  const chat = await ask(node, '/v1/chat/completions', { body: { model: 'test/endless', messages } })
  t.match([chat.status, refusal(chat)],
    [400, { reason: 'invalid_request', message: /chat template fails .*it takes more than \d+ steps/ }])
  const body = { model: 'test/endless', prompt: 'once', max_tokens: 2 }
  t.equal((await ask(node, '/v1/completions', { body })).status, 200, 'it completes texts as before')
  await placeOn(node, WHOLE)
  t.ok(await says(node))
}

/** A full disk under the home breaks no answer; a dead runner is restarted, or the reason is reported. */
export async function fullDisk (
  t: Test, env: Record<string, string>, disk: { path: string, fill (): void, free (): void }
): Promise<void> {
  const node = await modelsNode(t, env, {}, join(disk.path, 'home'))
  await placeOn(node, WHOLE)
  const text = await says(node)
  t.ok(text)
  disk.fill()
  t.equal(await says(node), text, 'it goes on')
  process.kill(node.runners()[0]!, 'SIGKILL')
  const said = await until('it to be back or report the reason', async () => {
    const { runners } = await stateOf(node)
    const [failed] = Object.values(runners).flatMap((status) => status['RunnerFailed']?.errorMessage ?? [])
    return failed ?? await says(node)
  })
  t.ok(said === text || /disk is full|ENOSPC/.test(said), said)
  t.equal((await ask(node, '/healthz')).status, 200)
  disk.free()
  if (said === text) return
  const { instances } = await stateOf(node)
  for (const id of Object.keys(instances)) await ask(node, `/instance/${id}`, { method: 'DELETE' })
  await placeOn(node, WHOLE)
  t.equal(await says(node), text, 'with room again it answers')
}
