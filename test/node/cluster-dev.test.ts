import t from 'tap'
import { spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { ask } from './http.js'
import { cli, folder, run, svc, until } from './kit.js'
import { alive, descendants, hardKill } from './proc.js'

interface Dev { nodes: { url: string, nodeId: string, pid: number, home: string, name: string }[],
  masterNodeId: string, sessionId: string }

t.test('svc dev --nodes 12: all nodes join although they start at once on one address', async (t) => {
  const home = join(folder(t), 'home')
  // Automatic placement of the voice is off: it would take time and is irrelevant here.
  const env = { HOME: home, SVC_PLUGINS_PLACEMENT_AUTOPLACE: '[]' }
  const args = ['dev', '--nodes', '12', '--base-port', '0', '--home', home, '--json']
  const child = run(process.execPath, [cli, ...args], { env })
  t.teardown(() => { hardKill(child.pid) })
  const line = await until('its line', () => {
    if (child.over()) throw new Error(`svc dev exited early: ${child.stderr()}`)
    return child.stdout().includes('\n') && child.stdout()
  }, { seconds: 200 })
  t.equal(line.trim().split('\n').length, 1, 'one line')
  const dev = JSON.parse(line) as Dev
  const names = Array.from({ length: 12 }, (_, n) => `node${n + 1}`)
  t.strictSame(dev.nodes.map(({ name }) => name), names)
  t.strictSame(dev.nodes.map((node) => node.home), names.map((name) => join(home, 'dev', name)))
  t.ok(dev.nodes.some(({ nodeId }) => nodeId === dev.masterNodeId))
  for (const { url, nodeId, home } of dev.nodes) {
    const token = readFileSync(join(home, 'operator.token'), 'utf8').trim()
    const { json } = await ask({ url, token }, '/state')
    t.match(json, { sessionId: dev.sessionId, masterNodeId: dev.masterNodeId, localNodeId: nodeId,
      cluster: { liveNodes: 12, knownNodes: 12, stale: false } })
  }
  const shown = await svc(['nodes', '--json', '--url', dev.nodes[1]!.url], { env: { HOME: home } })
  t.equal(shown.status, 0, shown.stderr)
  t.equal((JSON.parse(shown.stdout) as { nodes: unknown[] }).nodes.length, 12, 'and none is there twice')
  const below = descendants(child.pid)
  t.ok(below.length >= 12)
  child.process.kill('SIGINT')
  await child.ended
  await until('the end of its nodes', () => below.every((pid) => !alive(pid)))
})

const { status } = spawnSync('unshare', ['-n', 'true'])
const noNetwork = status !== 0 && 'network namespaces need Linux and root'

t.test('svc dev on a machine without IPv4', { skip: noNetwork }, async (t) => {
  const home = join(folder(t), 'home')
  const without = 'ip link set lo up && ip addr del 127.0.0.1/8 dev lo && exec "$0" "$@"'
  const svcDev = [process.execPath, cli, 'dev', '--home', home]
  const child = run('unshare', ['-n', 'sh', '-c', without, ...svcDev], { env: { HOME: home } })
  t.teardown(() => { hardKill(child.pid) })
  t.equal(await child.ended, 1)
  t.match(child.stderr(), /no 127\.0\.0\.1 .*ip addr add .*svc up --host ::1/)
})
