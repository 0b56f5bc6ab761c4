/** The compiled engine in real runner processes, with a stand-in for the program. */
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import t from 'tap'
import { parsed, type Fields } from '../../runners/language/json.js'
import { bench, hear, lives, until, type TestCase } from '../../runners/test/process-kit.js'
import { card } from '../../runners/test/samples.js'
import { GENERIC } from '../descriptions.js'
import type { Description } from '../schema.js'

const ENGINE = new URL('../../../dist/plugins/openai-programs/engine/index.js', import.meta.url)
const SCRIPT = fileURLToPath(new URL('fixtures/stand-in.mjs', import.meta.url))
const skip = existsSync(ENGINE) ? false : 'needs the compiled engine: run `npm run build` first'

const CARD = card('test/smol', {
  tasks: ['chat', 'completions'], engine: 'openai-programs', files: [], totalBytes: 4, nLayers: 1,
  contextLength: 2048
})

const VLLM: Partial<Description> = {
  args: [SCRIPT, '--uds', '{socket}'], metrics: { path: '/metrics', names: ['vllm:'] }
}
const MLX: Partial<Description> = {
  args: [SCRIPT, '--dialect', 'mlx', '--port', '{port}'], request_model: 'default_model', fragile: true,
  failed: 503,
  lacks: ['schema', 'required_tools', 'logprobs', 'stop', 'context', 'token_ids']
}

function started (t: TestCase, given: Partial<Description>, more: readonly string[] = []) {
  const scratch = mkdtempSync(join(tmpdir(), 'svc-programs-'))
  t.teardown(() => { rmSync(scratch, { recursive: true, force: true, maxRetries: 9, retryDelay: 100 }) })
  const journal = join(scratch, 'journal')
  writeFileSync(journal, '')
  const description = {
    ...GENERIC, environment: { STAND_IN: '{slots}' }, ...given,
    args: [...given.args ?? [], '--journal', journal, ...more]
  }
  const program = { name: 'stand-in', description, path: given.command ?? process.execPath, root: null,
    version: '1' }
  const spec = { card: CARD, directory: scratch, backend: 'cpu', threads: 1, slots: 3, options: { program } }
  const rig = bench(t, {}, { spec, engineModule: ENGINE.href, scratch, maxConcurrent: 8 })
  const entries = (): Fields[] =>
    readFileSync(journal, 'utf8').split('\n').slice(0, -1).map((line) => parsed(line) as Fields)
  const starts = (): Fields[] => entries().filter((entry) => 'start' in entry)
  let tasks = 0
  const ask = (word: string, payload: Fields = {}, signal = new AbortController().signal) =>
    rig.supervisor.open(`task-${++tasks}`,
      { kind: 'chat', payload: { messages: [{ role: 'user', content: word }], ...payload } }, signal)
  return {
    ...rig, ask, entries, starts,
    bodies: () => entries().flatMap(({ body }) => body === undefined ? [] : [body as Fields]),
    again: async (count: number) => {
      await until('another one serves', () => 'RunnerReady' in rig.supervisor.status &&
        starts().length === count, 40_000)
    },
    gone: async (index: number) => {
      const pids = [starts()[index]!['start'], starts()[index]!['child']].map(Number)
      await until('the program and its child are gone', () => !pids.some(lives))
    }
  }
}

const textOf = (payloads: Fields[]): string => (payloads as { choices: { delta?: { content?: string } }[] }[])
  .flatMap(({ choices }) => choices.map(({ delta }) => delta?.content ?? '')).join('')

for (const [dialect, description] of Object.entries({ vllm: VLLM, mlx: MLX })) {
  t.test(`the dialect of ${dialect} in a runner`, { skip }, async (t) => {
    const rig = started(t, description)
    await rig.ready()
    t.match(rig.starts(), [{ environment: '3' }])
    t.match(rig.bodies(), [{ max_tokens: 1, stream: true }], 'a canary before it is ready')
    const { payloads, end } = await hear(rig.ask('go', { repeat_penalty: 1.5, extra_body: { unheard: 1 } }))
    t.equal(end, 'end')
    t.equal(textOf(payloads), 'Mercury, Venus, Earth.')
    t.match(payloads.at(-1),
      { choices: [{ finish_reason: 'stop' }], usage: { prompt_tokens: 7, completion_tokens: 5 } })
    t.match(rig.bodies().at(-1), {
      model: dialect === 'mlx' ? 'default_model' : 'test/smol', repetition_penalty: 1.5, unheard: 1,
      repeat_penalty: undefined
    })
    const stopped = await hear(rig.ask('go', { stop: ['Venus'] }))
    t.equal(textOf(stopped.payloads), dialect === 'mlx' ? 'Mercury, ' : 'Mercury, Venus, Earth.')
    const checked = { response_format: { type: 'json_schema', json_schema: { schema: { required: ['b'] } } } }
    t.equal((await hear(rig.ask('json', checked))).end, dialect === 'mlx' ? 'invalid_request'
      : 'invalid_result')
    t.match((await hear(rig.ask('refuse'))).error,
      { reason: 'context_length_exceeded', details: { prompt_tokens: 2049, context_length: 2048 } })
    t.equal((await hear(rig.ask('go', { n: 2 }))).payloads.filter((one) =>
      (one as { usage?: object }).usage !== undefined).length, 2)

    const leaving = new AbortController()
    const before = rig.bodies().length
    await hear(rig.ask('slow', {}, leaving.signal), (index) => { if (index === 2) leaving.abort() })
    await until('the connection is closed', () => rig.entries().some(({ closed }) => closed === 'slow'))
    if (dialect === 'mlx') await until('a canary follows', () => rig.bodies().length === before + 2)

    t.match((await hear(rig.ask('early'))).error, { reason: 'instance_lost' },
      'a stream that closes without an end')
    if (dialect === 'vllm') t.match((await hear(rig.ask('error'))).error, { reason: 'instance_lost' },
      'error, then [DONE]')
    const crashed = await hear(rig.ask('exit0'))
    t.match(crashed.error, { reason: 'instance_lost' })
    await rig.again(2)
    await rig.gone(0)
    process.kill(Number(rig.starts()[1]!['start']), 'SIGKILL')
    await rig.again(3)
    await rig.gone(1)
  })
}

t.test('a program that hangs while it is healthy', { skip }, async (t) => {
  const rig = started(t, VLLM)
  await rig.ready()
  const startMs = performance.now()
  const { error } = await hear(rig.ask('hang'))
  t.match(error, { reason: 'instance_lost' })
  t.ok(performance.now() - startMs < 17_000)
  t.ok(rig.lines.some(({ fields, message }) => /hangs/.test(message + JSON.stringify(fields))))
  await rig.again(2)
  await rig.gone(0)
  process.kill(Number(rig.starts()[1]!['start']), 'SIGSTOP')
  await rig.again(3)
  await rig.gone(1)
})

t.test('an end, although it ignores SIGTERM and holds a stream open', { skip }, async (t) => {
  const rig = started(t, VLLM, ['--stubborn'])
  await rig.ready()
  const open = hear(rig.ask('slow'))
  await until('it writes', () => rig.bodies().length === 2)
  await rig.supervisor.stop()
  t.match((await open).error, { reason: 'instance_lost' })
  await rig.gone(0)
  t.notOk(existsSync(join(rig.scratch, 'work', 'program.sock')))
})

t.test('starts that fail', { skip }, async (t) => {
  const wrong = started(t, { command: '/no/such/program', args: [] })
  t.match(await wrong.failed(), /could not be started|ENOENT/)
  const taken = createServer().listen(0, '127.0.0.1')
  t.teardown(() => { taken.close() })
  await new Promise((resolve) => { taken.once('listening', resolve) })
  const { port } = taken.address() as { port: number }
  const busy = started(t, { args: [SCRIPT, '--port', String(port)] })
  t.match(await busy.failed(), /exited with code 1.*Errno 98/)
})
