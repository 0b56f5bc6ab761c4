import { dirname, join } from 'node:path'
import t from 'tap'
import { ask } from '../../node/http.js'
import { cli, root, run, startNode, until, type TestNode } from '../../node/kit.js'
import { recorder } from '../../real/recorder.js'
import { report } from '../kit.js'

interface Saw {
  server: string
  version: string | null
  session: boolean
  tools: string[]
  doctor: object
  sound?: { type: string, mimeType: string, bytes: number }
  facts?: { bytes: number, seconds: number }
  progress?: boolean
  link?: { size: number, read: number }
  wrong?: object
  cancelled?: boolean
  unknown: boolean
}

const script = join(root, 'test/clients/tools/mcp.mjs')

async function talk (words: readonly string[]): Promise<Saw> {
  const child = run(process.execPath, [script, ...words], { cwd: dirname(script) })
  const status = await child.ended
  if (status !== 0) throw new Error(`${words.join(' ')}: ${child.stderr()}`)
  return JSON.parse(child.stdout()) as Saw
}

const idle = async (node: TestNode): Promise<void> => {
  await until('the end of what was cancelled', async () => {
    const { json } = await ask(node, '/state')
    const { tasks } = json as { tasks: Record<string, { status?: string, taskStatus?: string }> }
    return !JSON.stringify(tasks).includes('"Running"')
  })
}

const node = await startNode(t)
const { url, exchanges } = await recorder(t, node)

const command = ['--', process.execPath, cli, 'mcp', '--home', node.home]

for (const [name, words, version] of [
  ['library 1 over HTTP', ['1', 'http', '--url', url], '2025-11-25'],
  ['library 2 as it comes over HTTP', ['2', 'http', '--url', url], '2025-11-25'],
  ['library 2 in its own revision over HTTP', ['2', 'http', '--mode', 'auto', '--url', url],
    '2026-07-28'],
  ['library 1 over stdio', ['1', 'stdio', ...command], null],
  ['library 2 in its own revision over stdio', ['2', 'stdio', '--mode', 'auto', ...command], '2026-07-28']
] as const) {
  t.test(name, async (t) => {
    const saw = await talk(words)
    t.equal(saw.server, 'svc')
    t.equal(saw.version, version)
    const expected = ['tts', 'chat', 'embeddings', 'doctor', 'running', 'logs']
    t.strictSame(expected.filter((tool) => !saw.tools.includes(tool)), [], 'all tools')
    t.match(saw.doctor, { facts: [{ level: /./, text: /./ }] })
    t.match(saw.sound, { type: 'audio', mimeType: 'audio/mpeg' })
    t.equal(saw.sound!.bytes, saw.facts!.bytes)
    t.ok(saw.facts!.seconds > 1, `${saw.facts!.seconds} s of sound`)
    t.equal(saw.progress, true)
    t.ok(saw.link!.size > 1024 * 1024 && saw.link!.read === saw.link!.size, JSON.stringify(saw.link))
    t.match(saw.wrong, { isError: true, content: [{ text: /400 invalid_payload/ }] })
    t.equal(saw.cancelled, true)
    t.equal(saw.unknown, true)
    await idle(node)
  })
}

t.test('what svc refused them', (t) => {
  report(t, {
    client: 'MCP clients (JavaScript)',
    packages: ['@modelcontextprotocol/sdk', '@modelcontextprotocol/client'],
    set: '`URL/mcp`, or the command `svc mcp`',
    works: ['tools', 'sound', 'resources', 'progress', 'cancellation', 'HTTP and stdio']
  }, exchanges, [{
    path: '/mcp', status: 405, sent: /^$/, got: /method_not_allowed/,
    why: 'svc opens no stream of its own, and the protocol allows this answer'
  }])
  t.end()
})

t.test('a token determines the offered tools; without one a remote client gets none', async (t) => {
  const make = async (...authorities: string[]): Promise<string> => {
    const made = await ask(node, '/v1/tokens', { body: { label: 'mcp', authorities } })
    return (made.json as { token: string }).token
  }
  const reader = await talk(['1', 'http', '--url', node.url, '--token', await make('read')])
  t.notOk(reader.tools.includes('tts'))
  t.ok(reader.tools.includes('doctor'))
  const invoker = await make('invoke')
  await t.rejects(talk(['1', 'http', '--url', node.url, '--token', invoker]), /read/)
  const foreign = await fetch(`${node.url}/mcp`, {
    method: 'POST', headers: { origin: 'https://evil.example', 'content-type': 'application/json' },
    body: '{"jsonrpc":"2.0","id":1,"method":"tools/list"}'
  })
  t.equal(foreign.status, 403, 'no page of another site')
})
