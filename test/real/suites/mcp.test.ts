/**
 * MCP's conformance suite and its inspector against a node with a plugin that has the tools of the suite.
 * mcp.json lists the scenarios that do not apply, each with the reason.
 */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { ask } from '../../node/http.js'
import { cli, folder, root, run, startNode, type TestNode } from '../../node/kit.js'
import { recorder, reportClient, type Expected } from '../recorder.js'
import { conformance, inspector, node22, suites, withoutPrograms } from './kit.js'

const skip = withoutPrograms
/** Scenarios that do not apply; `feature` is what they need of a server and svc does not have. */
interface Excluded { feature?: string, why: string, scenarios: string[] }
const EXCLUDED = JSON.parse(readFileSync(join(suites, 'mcp.json'), 'utf8')) as Excluded[]
/** Number of scenarios of the suite's release. */
const SCENARIOS = 32

const start = async (t: Test): Promise<TestNode> => await startNode(t, {
  config: {
    cluster: { discovery: false },
    plugins: { 'mcp-tools': { module: join(root, 'test/real/mcp-tools.mjs') }, placement: { autoplace: [] } }
  }
})

/** Runs a program on Node 22. */
async function program (
  t: Test, path: string, words: readonly string[]
): Promise<{ status: number | string, stdout: string, stderr: string }> {
  // The inspector keeps a list of servers in the home.
  const child = run(node22, [path, ...words], { env: { HOME: folder(t) } })
  return { status: await child.ended, stdout: child.stdout(), stderr: child.stderr() }
}

t.test('conformance 0.1.16', { skip, timeout: 300_000 }, async (t) => {
  const node = await start(t)
  const { text } = await ask(node, '/mcp', {
    headers: { accept: 'application/json, text/event-stream' },
    body: { jsonrpc: '2.0', id: 1, method: 'initialize', params: {
      protocolVersion: '2025-11-25', capabilities: {}, clientInfo: { name: 'test', version: '1' }
    } }
  })
  const { result: { capabilities } } = JSON.parse(text.slice(text.indexOf('{'))) as
    { result: { capabilities: Record<string, object> } }
  t.same(Object.keys(capabilities).sort(), ['resources', 'tools'])
  for (const { feature } of EXCLUDED) {
    if (feature === undefined) continue
    const has = feature.split('.').reduce<unknown>((value, key) => (value as Record<string, unknown>)?.[key],
      capabilities)
    t.notOk(has, `svc does not advertise ${feature}`)
  }

  const { stdout, stderr } = await program(t, conformance,
    ['server', '--url', `${node.url}/mcp`, '--suite', 'all', '--output-dir', folder(t)])
  const lines = [...stdout.matchAll(/^\S (\S+): (\d+) passed, (\d+) failed$/gm)]
  t.equal(lines.length, SCENARIOS, `the scenarios in: ${stdout.slice(-2000)}${stderr}`)
  const isPassed = (line: RegExpExecArray): boolean => Number(line[2]) > 0 && line[3] === '0'
  const failed = lines.filter((line) => !isPassed(line)).map(([, name]) => name).sort()
  const excluded = EXCLUDED.flatMap(({ scenarios }) => scenarios).sort()
  t.same(failed, excluded, 'exactly those of mcp.json do not pass')
})

/** Answers of 400 and more to the inspector that are right. */
const EXPECTED: Expected[] = [{
  path: '/mcp', status: 405, sent: /^$/, got: /GET/,
  why: 'a client may ask for a stream of notifications, which svc does not have'
}]

t.test('the inspector\'s command line', { skip, timeout: 300_000 }, async (t) => {
  const node = await start(t)
  const recorded = await recorder(t, node)
  const inspect = async (...words: string[]):
  Promise<{ status: number | string, stderr: string, json: unknown }> => {
    const { status, stdout, stderr } = await program(t, inspector,
      ['--cli', `${recorded.url}/mcp`, '--transport', 'http', '--method', ...words])
    return { status, stderr, json: stdout.trim() === '' ? undefined : JSON.parse(stdout) as unknown }
  }
  const call = async (name: string, ...words: string[]): ReturnType<typeof inspect> =>
    await inspect('tools/call', '--tool-name', name, ...words)
  const tools = await inspect('tools/list')
  t.equal(tools.status, 0, tools.stderr)
  const names = (value: unknown): string[] =>
    (value as { tools: { name: string }[] }).tools.map(({ name }) => name)
  for (const name of ['chat', 'tts', 'embeddings', 'doctor', 'test_simple_text']) {
    t.ok(names(tools.json).includes(name), name)
  }
  t.match(tools.stderr, /Schema portability: 0 errors/)
  t.match(await call('test_simple_text'),
    { status: 0, json: { content: [{ type: 'text', text: /^This is a simple text/ }] } })
  t.match(await call('json_schema_2020_12_tool', '--tool-arg', 'name=Ada'),
    { status: 0, json: { structuredContent: { name: 'Ada' } } })
  t.match(await call('doctor'), { status: 0, json: { content: [{ type: 'text', text: /"facts"/ }] } })
  // The inspector exits with 5 for a tool's error.
  t.match(await call('fit'), { status: 5, json: { isError: true, content: [{ text: /model is required/ }] } })
  const { json } = await call('test_large_audio')
  const { uri, size } = (json as { content: { uri: string, size: number }[] }).content[0]!
  t.match(await inspect('resources/list'), { status: 0, json: { resources: [{ uri, size }] } })
  const read = (await inspect('resources/read', '--uri', uri)).json as { contents: { blob: string }[] }
  t.equal(Buffer.from(read.contents[0]!.blob, 'base64').length, size)
  t.match(await inspect('prompts/list'), { status: 0, json: { prompts: [] } })

  const overStdio = await program(t, inspector,
    ['--cli', process.execPath, cli, 'mcp', '--home', node.home, '--method', 'tools/list'])
  t.same(names(JSON.parse(overStdio.stdout)), names(tools.json), 'the same tools over stdio')

  const { version } = JSON.parse(readFileSync(join(suites,
    'node_modules/@modelcontextprotocol/inspector/package.json'), 'utf8')) as { version: string }
  const { unexpected } = reportClient({
    client: 'MCP inspector', version, set: 'Streamable HTTP: `URL/mcp`; stdio: `svc mcp`',
    works: ['tools', 'structured results', 'large media as resources', 'stdio']
  }, recorded.exchanges, EXPECTED)
  t.same(unexpected, [], 'no other answer of svc is an error')
})
