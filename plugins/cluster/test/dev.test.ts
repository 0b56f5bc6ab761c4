import t, { type Test } from 'tap'
import { createServer, type AddressInfo } from 'node:net'
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { Readable, Writable } from 'node:stream'
import { CliError } from '../../../kernel/cli/errors.js'
import { runCli } from '../../../kernel/cli/program.js'
import { cli } from '../../../kernel/test/cli-helpers.js'
import { disagreement } from '../cli/dev.js'
import { devEnv, isMemberOf } from '../cli/dev-node.js'
import { devPorts } from '../cli/dev-ports.js'
import cluster from '../index.js'
import type { ClusterState } from '../../../kernel/cli/index.js'

/**
 * A stub for `svc up`: listens as a launched node does, writes a members file, and finds other nodes by their
 * files in the folder that holds the homes.
 */
const fixture = `
  import { createServer } from 'node:http'
  import { appendFileSync, existsSync, mkdirSync, readdirSync, readFileSync, renameSync, writeFileSync } from
    'node:fs'
  import { dirname, join } from 'node:path'
  const args = process.argv.slice(2)
  const option = (name) => args.includes(name) ? args[args.indexOf(name) + 1] : undefined
  const [home, name, token] = [option('--home'), process.env.SVC_NAME, process.env.SVC_JOIN]
  const { SVC_CLUSTER_PORT, SVC_ACCESS_LOCAL, SVC_LAUNCHER_STARTS, SVC_LISTEN_FD } = process.env
  process.once('disconnect', () => process.exit(1))
  process.channel.unref()
  for (const signal of ['SIGTERM', 'SIGINT']) process.on(signal, () => process.exit(0))
  const dev = dirname(home)
  // Write atomically: other nodes read this file.
  const write = (path, text) => {
    writeFileSync(path + '.' + name, text)
    renameSync(path + '.' + name, path)
  }
  mkdirSync(join(home, 'state'), { recursive: true })
  appendFileSync(join(dev, 'starts.jsonl'), JSON.stringify({ name, token: token ?? null, args,
    port: SVC_CLUSTER_PORT, access: SVC_ACCESS_LOCAL, starts: SVC_LAUNCHER_STARTS }) + '\\n')
  if (existsSync(join(home, 'broken'))) {
    console.error('this home is broken')
    process.exit(1)
  }
  const members = join(home, 'state', 'members.json')
  const firstMembers = join(dev, 'node1', 'state', 'members.json')
  writeFileSync(join(home, 'node.json'), JSON.stringify({ format: 1, installId: 'install-' + name }))
  const add = (path) => {
    const fresh = { format: 1, clusterId: 'c', members: [] }
    const known = existsSync(path) ? JSON.parse(readFileSync(path)) : fresh
    if (!known.members.some((m) => m.installId === 'install-' + name)) {
      known.members.push({ installId: 'install-' + name })
    }
    write(path, JSON.stringify(known))
  }
  if (name === 'node1' || token !== undefined) { add(firstMembers); add(members) }
  const nodeId = name + '-' + process.pid
  write(join(dev, name + '.up'), nodeId)
  const state = () => {
    const up = readdirSync(dev).filter((file) => file.endsWith('.up'))
    const ids = up.map((file) => readFileSync(join(dev, file), 'utf8'))
    const split = existsSync(join(dev, 'split'))
    return { localNodeId: nodeId, masterNodeId: split ? nodeId : ids.sort()[0], sessionId: 's1',
      nodeIdentities: Object.fromEntries(ids.map((id) => [id, { friendlyName: id.split('-')[0] }])),
      cluster: { stale: false, liveNodes: ids.length, knownNodes: ids.length } }
  }
  let tokens = 0
  const server = createServer((request, response) => {
    const answer = (value, status = 200) => {
      response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(value))
    }
    if (request.url === '/state') answer(state())
    else if (request.url === '/cluster/join-tokens') {
      if (tokens++ === 0) {
        answer({ error: { message: 'No master.', reason: 'no_master', code: 503, details: {} } }, 503)
      } else answer({ token: 'token-' + tokens })
    } else if (request.url.startsWith('/exit/')) {
      response.end('', () => process.exit(Number(request.url.slice(6))))
    }
  })
  server.listen({ fd: Number(SVC_LISTEN_FD) }, () => {
    const url = 'http://127.0.0.1:' + server.address().port
    if (Number(SVC_LAUNCHER_STARTS) > 1) console.error('restarted: ' + url)
    else console.log(JSON.stringify({ url, nodeId, pid: process.pid, home }))
    console.error(name + ' listens')
  })`

interface Start { name: string, token: string | null, args: string[], port: string, access: string
  starts: string }

interface Dev { home: string, out (): string, err (): string, until (words: RegExp): Promise<void>
  stop (): void, over: Promise<number>, starts (): Start[] }

type Folder = Exclude<Parameters<Test['testdir']>[0], undefined>

/** Runs `svc dev` with the stub as its node. */
function dev (t: Test, words: string[], files: Folder = {}): Dev {
  const folder = t.testdir({ 'package.json': '{"type":"module"}', 'svc.js': fixture, home: { dev: files } })
  const { NODE_OPTIONS: _, ...env } = process.env
  t.intercept(process, 'argv', { value: [process.execPath, join(folder, 'svc.js')] })
  t.intercept(process, 'execArgv', { value: [] })
  const home = join(folder, 'home')
  const stop = new AbortController()
  let [out, err] = ['', '']
  let heard = (): void => {}
  const into = (take: (text: string) => void): Writable => new Writable({
    write (chunk, _encoding, done) { take(String(chunk)); heard(); done() }
  })
  const over = runCli(['dev', '--home', home, ...words], {
    io: { stdout: into((text) => { out += text }), stderr: into((text) => { err += text }),
      stdin: Readable.from([]), env: { ...env, SVC_NAME: 'mine', SVC_NO_LAUNCHER: '1' }, cwd: folder },
    plugins: async () => [cluster],
    signal: stop.signal
  })
  t.teardown(async () => { stop.abort(); await over })
  return {
    home, over,
    out: () => out,
    err: () => err,
    stop: () => { stop.abort() },
    starts: () => readFileSync(join(home, 'dev', 'starts.jsonl'), 'utf8').trim().split('\n')
      .map((line) => JSON.parse(line) as Start),
    async until (words) {
      let ended = false
      void over.finally(() => {
        ended = true
        heard()
      })
      while (!words.test(out + err)) {
        if (ended) throw new Error(`it has ended and said: ${out}${err}`)
        await new Promise<void>((resolve) => { heard = resolve })
      }
    }
  }
}

interface Shown { nodes: { url: string, nodeId: string, pid: number, home: string, name: string }[]
  masterNodeId: string, sessionId: string }

function isAlive (pid: number): boolean {
  try { process.kill(pid, 0) } catch { return false }
  return !/^State:\s+Z/m.test(readFileSync(`/proc/${pid}/status`, 'utf8'))
}

t.test('three nodes, joined by tokens; one line of JSON; all end at Ctrl-C', async (t) => {
  const run = dev(t, ['--nodes', '3', '--base-port', '0', '--json'])
  await run.until(/masterNodeId/)
  const shown = JSON.parse(run.out()) as Shown
  t.equal(run.out().split('\n').length, 2, 'one line')
  t.same(Object.keys(shown), ['nodes', 'masterNodeId', 'sessionId'])
  t.same(shown.nodes.map((node) => Object.keys(node)),
    Array(3).fill(['url', 'nodeId', 'pid', 'home', 'name']))
  t.same(shown.nodes.map((node) => node.name), ['node1', 'node2', 'node3'])
  t.same(shown.nodes.map((node) => node.home), [1, 2, 3].map((i) => join(run.home, 'dev', `node${i}`)))
  t.equal(shown.masterNodeId, shown.nodes[0]!.nodeId)
  t.equal(shown.sessionId, 's1')
  for (const { pid, nodeId } of shown.nodes) {
    t.ok(isAlive(pid))
    t.match(nodeId, new RegExp(`-${pid}$`), 'the pid of the node itself')
  }
  const [first, ...others] = run.starts()
  t.match(first, { name: 'node1', token: null, access: undefined })
  t.same(others.map((start) => start.token).sort(), ['token-2', 'token-3'],
    'a token each; no master was waited for')
  t.equal(new Set(run.starts().map((start) => start.port)).size, 3)
  t.match(run.err(), /node2 \| node2 listens/)
  run.stop()
  t.equal(await run.over, 130)
  for (const { pid } of shown.nodes) t.notOk(isAlive(pid), 'ended')
})

t.test('homes that are members just start; one that is not gets a token', async (t) => {
  const member = (i: number): Folder => ({ state: { 'members.json': JSON.stringify({ clusterId: 'c',
    members: [1, 2].map((k) => ({ installId: `install-node${k}` })) }) },
  'node.json': JSON.stringify({ installId: `install-node${i}` }) })
  const run = dev(t, ['--base-port', '0'], { node1: member(1), node2: member(2) })
  await run.until(/Press Ctrl-C to stop all nodes/)
  t.same(run.starts().map(({ name, token }) => [name, token]).sort(),
    [['node1', null], ['node2', null], ['node3', 'token-2']])
  t.match(run.out(), /^NAME +NODE +URL +MASTER +PID +HOME\nnode1 +node1-\d+ +http:\S+ +yes +\d+ /)
  t.match(run.out(), /\nSession s1\. Try: \S+\/svc nodes --url http:\S+ --home \S+home\n/)
  run.stop()
  t.equal(await run.over, 130)
})

t.test('a node that asks for it is started again, without its token; one that dies is told of', async (t) => {
  const run = dev(t, ['--nodes', '2', '--base-port', '0', '--json'])
  await run.until(/masterNodeId/)
  const { nodes } = JSON.parse(run.out()) as Shown
  await fetch(`${nodes[1]!.url}/exit/75`).catch(() => {})
  await run.until(/restarted: /)
  t.match(run.starts().at(-1), { name: 'node2', token: null, starts: '2' })
  process.kill(nodes[0]!.pid, 'SIGKILL')
  await run.until(
    /node1: it was killed by SIGKILL; the others keep running\. Restart it: \S+ dev start node1 --/)
  t.ok((await fetch(`${nodes[1]!.url}/state`)).ok, 'the other one goes on')
  await fetch(`${nodes[1]!.url}/exit/3`).catch(() => {})
  t.equal(await run.over, 1)
  t.match(run.err(), /node2: it exited with status 3/)
  t.match(run.err(), /all nodes have stopped/)
})

t.test('a node that does not start ends all, with what it said', async (t) => {
  const run = dev(t, ['--nodes', '2', '--base-port', '0'], { node2: { broken: '' } })
  t.equal(await run.over, 1)
  t.match(run.err(), /node2 did not start: it exited with status 1\n {2}this home is broken/)
  t.equal(run.out(), '')
})

t.test('nodes that do not agree are waited for, and Ctrl-C ends that', async (t) => {
  const run = dev(t, ['--nodes', '2', '--base-port', '0'], { split: '' })
  await run.until(/node2 listens/)
  await sleep(300)
  t.equal(run.out(), '')
  run.stop()
  t.equal(await run.over, 130)
})

t.test('a port in use names its holder before anything is started', async (t) => {
  const holder = createServer().listen(0, '127.0.0.1')
  await new Promise((resolve) => { holder.once('listening', resolve) })
  t.teardown(() => { holder.close() })
  const { port } = holder.address() as AddressInfo
  const run = dev(t, ['--nodes', '1', '--base-port', String(port)])
  t.equal(await run.over, 1)
  t.match(run.err(),
    new RegExp(`port ${port} is in use by process ${process.pid} .*--base-port.*Nothing was started`))
  t.notOk(existsSync(join(run.home, 'dev', 'starts.jsonl')))
})

t.test('wrong numbers are refused', async (t) => {
  const check = async (words: string[], message: RegExp): Promise<void> => {
    const ran = await cli(['dev', ...words, '--home', t.testdirName], { plugins: [cluster] })
    t.equal(ran.status, 2, words.join(' '))
    t.match(ran.err, message)
  }
  await check(['--nodes', '0'], /--nodes 0: expected a whole number from 1 to 64/)
  await check(['--nodes', 'x'], /--nodes x/)
  await check(['--base-port', '65531'], /--base-port 65531: expected a whole number from 0 to 65530/)
  await check(['--base-port', '1.5'], /--base-port 1\.5/)
})

t.test('two ports a node, all different', async (t) => {
  const ctx = { fail: (...given: ConstructorParameters<typeof CliError>) => new CliError(...given) }
  const free = await devPorts(ctx, 4, 0)
  t.equal(new Set(free.flatMap(({ api, cluster }) => [api, cluster])).size, 8)
  // The neighbour of a free port may be in use: take the first free pair.
  for (let base = 20_000; ; base += 2) {
    const found = await devPorts(ctx, 2, base).catch(() => undefined)
    if (found === undefined) continue
    t.same(found, [{ api: base, cluster: base + 1 }, { api: base + 2, cluster: base + 3 }])
    return
  }
})

t.test('each node has its own settings; the rest reaches all of them', (t) => {
  const given = { PATH: '/bin', SVC_NAME: 'x', SVC_API_PORT: '1', SVC_CLUSTER_QUORUM: 'majority',
    SVC_CLUSTER_PEERS: 'a:1', SVC_TOKEN: 't', SVC_MODEL_STORE_STORE_PATH: '/b',
    SVC_NODE_CACHE_PATH: '/c' }
  const own = devEnv(given, {
    name: 'node2', port: 7, own: { 'model_store.store_path': '/a', node_cache_path: null }
  })
  t.same(own, { PATH: '/bin', SVC_NAME: 'node2', SVC_CLUSTER_QUORUM: 'majority',
    SVC_CLUSTER_PORT: '7',
    SVC_MODEL_STORE_STORE_PATH: '/a', SVC_CLUSTER_DISCOVERY: 'false' })
  t.notOk(isMemberOf('/nowhere', '/nowhere'))
  t.end()
})

t.test('why nodes are not one cluster', (t) => {
  const state = (id: string, more: object = {}): ClusterState => ({
    localNodeId: id, masterNodeId: 'a', sessionId: 's', nodeHealth: {}, nodeCapabilities: {},
    nodeIdentities: { a: { friendlyName: 'A' }, b: { friendlyName: 'B' } },
    cluster: { term: 1, quorum: 'ok', stale: false, partition: false, knownNodes: 2, liveNodes: 2 },
    ...more }) as unknown as ClusterState
  const check = (more: object, expected: RegExp | null): void => {
    const found = disagreement([state('a'), state('b', more)])
    if (expected === null) t.equal(found, null)
    else t.match(found, expected)
  }
  check({}, null)
  check({ masterNodeId: null }, /^B has no master$/)
  check({ cluster: { stale: true } }, /^B has no master$/)
  check({ nodeIdentities: { b: { friendlyName: 'B' } } }, /^B does not know a$/)
  check({ cluster: { stale: false, liveNodes: 1 } }, /^B counts 1 of 2 nodes as live$/)
  check({ masterNodeId: 'b' }, /^A and B follow different masters$/)
  check({ sessionId: 's2' }, /^A and B are in different sessions$/)
  t.end()
})
