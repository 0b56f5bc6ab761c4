import { createInterface } from 'node:readline'
import { PassThrough } from 'node:stream'
import t, { type Test } from 'tap'
import { definePlugin } from '../../../kernel/index.js'
import { startPlugin } from '../../../kernel/testing/index.js'
import { runCli } from '../../../kernel/cli/program.js'
import mcp from '../index.js'

const anything = { type: 'object', properties: {} } as const

const words = definePlugin({
  name: 'words', version: '1.0.0', kernel: '^1.0.0', summary: 'Counts.',
  capabilities: {
    count: {
      id: 'words', version: '1.0.0', title: 'Words', description: 'Counts words.', io_mode: 'unary',
      input_schema: anything, output_schema: anything, annotations: {}
    }
  },
  tools: {
    look: {
      summary: 'Looks.', args: anything,
      load: async () => ({ default: { run: async () => ({ facts: [], unknown: ['What it is.'] }) } })
    }
  }
}, () => ({ invoke: { count: async ({ text }: { text?: string }) => ({ words: text?.split(' ').length }) } }))

interface Message { id?: number, method?: string, result?: unknown, error?: unknown }

/** Runs `svc mcp` in this process and exchanges messages with it. */
function program (t: Test, url: string): {
  ask (method: string, params?: object): Promise<Message>, status: Promise<number>, end (): void
} {
  const stdin = new PassThrough()
  const stdout = new PassThrough()
  const status = runCli(['mcp', '--url', url, '--home', t.testdir()], {
    io: { stdin, stdout, stderr: new PassThrough(), env: {}, cwd: '/' },
    plugins: async () => [mcp, words], signal: new AbortController().signal
  })
  const waiting = new Map<number, (message: Message) => void>()
  createInterface({ input: stdout }).on('line', (line) => {
    const message = JSON.parse(line) as Message
    waiting.get(message.id ?? -1)?.(message)
  })
  let id = 0
  return {
    status, end: () => { stdin.end() },
    ask: (method, params = {}) => new Promise((resolve) => {
      waiting.set(++id, resolve)
      stdin.write(`${JSON.stringify({ jsonrpc: '2.0', id, method, params })}\n`)
    })
  }
}

const hello = { protocolVersion: '2025-06-18', capabilities: {}, clientInfo: { name: 'x', version: '1' } }

t.test('svc mcp serves the node over stdin and stdout, and ends with its input', async (t) => {
  const rig = await startPlugin(t, mcp, { plugins: [words] })
  const { ask, status, end } = program(t, await rig.listen())
  t.match(await ask('initialize', hello), { result: { capabilities: { tools: { listChanged: true } } } })
  t.match(await ask('tools/list'), { result: { tools: [{ name: 'look' }, { name: 'words' }] } })
  t.match(await ask('tools/call', { name: 'words', arguments: { text: 'a b' } }),
    { result: { content: [{ text: '{"words":2}' }] } })
  t.match(await ask('tools/call', { name: 'look' }), { result: { content: [{ text: /What it is/ }] } })
  end()
  t.equal(await status, 0)
})

t.test('without a node it still says what it would offer, and why a call fails', async (t) => {
  const { ask, status, end } = program(t, 'http://127.0.0.1:1')
  await ask('initialize', hello)
  t.match(await ask('tools/list'), { result: { tools: [{ name: 'look' }] } })
  t.match(await ask('tools/call', { name: 'words' }),
    { result: { isError: true, content: [{ text: /no node answers at http:\/\/127.0.0.1:1/ }] } })
  end()
  t.equal(await status, 0)
})
