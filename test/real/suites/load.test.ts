/**
 * Load generators of others, unmodified, against a node with SmolLM2: their requests are answered, and they
 * count the tokens that svc reports. `npm run test:real -- suites`.
 */
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { join } from 'node:path'
import { buffer } from 'node:stream/consumers'
import { fileURLToPath } from 'node:url'
import t, { type Test } from 'tap'
import { folder, run } from '../../node/kit.js'
import { pythonEnvironment } from '../python.mjs'
import { recorder, type Exchange } from '../recorder.js'
import { pullAndPlace, serverProgram, startWith } from '../weights-kit.js'
import { folderOf, ggufOf, withoutWeights } from '../weights.js'
import type { AddressInfo } from 'node:net'

const here = (name: string): string => fileURLToPath(new URL(`load/${name}`, import.meta.url))
const program = serverProgram()
const python = pythonEnvironment('load', here('requirements.txt'))
const skip = 'missing' in program ? program.missing : python.missing ?? withoutWeights(['smollm2'])
const server = 'path' in program ? program.path : ''

const MODEL = 'test/smollm2'
const REQUESTS = 8
const STREAMS = 2
const PROMPT = 32
const TOKENS = 8

async function runs (t: Test, name: string, args: string[], path: string): Promise<void> {
  const env = {
    PYTHONPATH: path, PYTHONDONTWRITEBYTECODE: '1', HF_HUB_OFFLINE: '1', USE_TORCH: 'NO',
    GUIDELLM__MAX_WORKER_PROCESSES: '1'
  }
  const child = run(join(python.folder ?? '', name), args, { cwd: folder(t), env })
  t.teardown(() => { child.process.kill('SIGKILL') })
  t.equal(await child.ended, 0, `${name} ${child.stdout().slice(-2000)}${child.stderr().slice(-2000)}`)
}

/** vLLM bench keeps its prompts as they are if the server does not have this route of vLLM's server. */
const TOKENIZE = '/tokenize'

/**
 * A proxy that removes the comments of server-sent events. vLLM bench strips the blank line from a comment
 * that arrives alone, and drops the events that follow it as a part of the comment.
 */
async function withoutComments (t: Test, { url }: { url: string }): Promise<string> {
  const pass = async (from: IncomingMessage, to: ServerResponse): Promise<void> => {
    const { method = '' } = from
    const sent = method === 'POST' ? { body: await buffer(from) } : {}
    const answer = await fetch(`${url}${from.url}`,
      { method, headers: { 'content-type': 'application/json' }, ...sent })
    to.writeHead(answer.status, { 'content-type': answer.headers.get('content-type') ?? '' })
    let rest = ''
    for await (const bytes of answer.body ?? []) {
      const events = `${rest}${Buffer.from(bytes).toString()}`.split('\n\n')
      rest = events.pop() ?? ''
      for (const event of events) if (!event.startsWith(':')) to.write(`${event}\n\n`)
    }
    to.end(rest)
  }
  const server = createServer((from, to) => { pass(from, to).catch(() => { to.destroy() }) })
  server.listen(0, '127.0.0.1')
  t.teardown(() => { server.close(); server.closeAllConnections() })
  await once(server, 'listening')
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}

interface Usage { prompt_tokens: number, completion_tokens: number }

/** The usage of each streamed answer: that of its last event. */
function usages (exchanges: Exchange[]): Usage[] {
  return exchanges.filter(({ sent }) => /"stream": ?true/.test(sent)).map(({ got }) =>
    got.split('\n').filter((line) => line.startsWith('data: {'))
      .map((line) => (JSON.parse(line.slice(6)) as { usage?: Usage | null }).usage)
      .findLast((usage) => usage != null)!)
}

/** Checks that all requests were answered, and returns the tokens that svc reported. */
function reported (t: Test, exchanges: Exchange[]): [prompt: number, answer: number] {
  const refused = exchanges.filter(({ status = 0, path }) => status !== 200 && path !== TOKENIZE)
  t.same(refused, [], 'all answers are 200')
  const found = usages(exchanges)
  t.equal(found.length, REQUESTS, 'requests')
  const sum = (name: keyof Usage): number => found.reduce((all, usage) => all + usage[name], 0)
  return [sum('prompt_tokens'), sum('completion_tokens')]
}

interface Distribution { total_sum: number }
interface Guidellm {
  benchmarks: { metrics: {
    request_totals: Record<'successful' | 'errored' | 'incomplete' | 'total', number>
    prompt_token_count: { successful: Distribution }, output_token_count: { successful: Distribution }
  } }[]
}
interface Vllm {
  completed: number, failed: number, total_input_tokens: number, total_output_tokens: number
  errors: string[]
}

t.test('load generators', { skip, timeout: 900_000 }, async (t) => {
  const node = await startWith(t, 'server', server)
  await pullAndPlace(t, node, folderOf('smollm2'), MODEL, ['--ctx', '512', '--slots', `${STREAMS}`])
  const tokenizer = join(folder(t), 'tokenizer')
  await runs(t, 'python', [here('tokenizer.py'), ggufOf('smollm2'), tokenizer], '')
  const jsonOf = (path: string): unknown => JSON.parse(readFileSync(path, 'utf8'))

  await t.test('guidellm', async (t) => {
    const { url, exchanges } = await recorder(t, node)
    const report = join(folder(t), 'report.json')
    await runs(t, 'guidellm', [
      'run', '--backend', `kind=openai_http,target=${url},model=${MODEL}`,
      '--profile', `kind=concurrent,streams=${STREAMS}`,
      '--constraint', `kind=max_requests,count=${REQUESTS}`,
      '--tokenizer', `kind=huggingface_auto,model=${tokenizer}`,
      '--data', `kind=synthetic_text,prompt_tokens=${PROMPT},output_tokens=${TOKENS}`,
      '--output', `kind=json,path=${report}`, '--disable-console'
    ], here('stubs'))
    const { benchmarks: [one] } = jsonOf(report) as Guidellm
    const { request_totals: totals, prompt_token_count: prompt, output_token_count: answer } = one!.metrics
    t.match(totals, { successful: REQUESTS, errored: 0, incomplete: 0 })
    const tokens = reported(t, exchanges)
    t.equal(tokens[1], REQUESTS * TOKENS, 'svc generates the tokens that are asked for')
    t.same([prompt.successful.total_sum, answer.successful.total_sum], tokens)
  })

  for (const [backend, path] of [['openai-chat', '/v1/chat/completions'], ['openai', '/v1/completions']]) {
    await t.test(`vllm bench serve, ${path}`, async (t) => {
      const { url, exchanges } = await recorder(t, node)
      const results = folder(t)
      await runs(t, 'python', [
        here('bench.py'), '--backend', backend!, '--base-url', await withoutComments(t, { url }),
        '--endpoint', path!, '--model', MODEL, '--tokenizer', tokenizer, '--dataset-name', 'random',
        '--random-input-len', `${PROMPT}`, '--random-output-len', `${TOKENS}`,
        '--num-prompts', `${REQUESTS}`, '--max-concurrency', `${STREAMS}`, '--ignore-eos',
        '--save-result', '--save-detailed', '--result-dir', results, '--result-filename', 'report.json'
      ], '')
      const report = jsonOf(join(results, 'report.json')) as Vllm
      t.match(report, { completed: REQUESTS, failed: 0 }, report.errors?.join('\n'))
      const tokens = reported(t, exchanges)
      t.equal(tokens[1], REQUESTS * TOKENS, 'svc generates the tokens that are asked for')
      t.same([report.total_input_tokens, report.total_output_tokens], tokens)
    })
  }
})
