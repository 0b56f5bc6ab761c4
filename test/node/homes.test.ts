import t from 'tap'
import { cpSync, existsSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { ask, streamed } from './http.js'
import { does, TTS } from './engine.js'
import { startCluster, quiet } from './cluster-kit.js'
import { faultsConfig, folder, startNode, svc, until } from './kit.js'

t.test('homes and ports in use, and homes of a later version', async (t) => {
  const node = await startNode(t, { config: faultsConfig() })
  const fresh = (): string => join(folder(t), 'home')

  const members = await svc(['up', '--json', '--home', fresh(), '--port', '0'],
    { env: { SVC_CLUSTER_PORT: String(node.port) } })
  t.equal(members.status, 1)
  t.match(members.stderr,
    new RegExp(`port ${node.port} for members is in use by .*cluster\\.port in svc\\.yaml`))

  const home = await svc(['up', '--json', '--home', node.home, '--port', '0'])
  t.equal(home.status, 1)
  t.match(home.stderr, new RegExp(`the home ${node.home} is in use by process ${node.pid}.*--home`))
  t.equal((await ask(node, '/node_id')).json, node.nodeId, 'the first one is left alone')
  t.equal((await streamed(node, TTS, does('test/ok', 'count', { chunks: 1 }))).last?.header.kind, 'completed')
  node.child.process.kill('SIGTERM')
  t.equal(await node.child.ended, 0)
  // Skips `sandbox`, which holds the runners' mount points instead of files of the home.
  const files = (readdirSync(node.home, { recursive: true }) as string[]).filter((name) =>
    name.endsWith('.json') && !name.includes('/sandbox/'))
  t.ok(files.includes('node.json'))
  for (const name of files) {
    t.match(JSON.parse(readFileSync(join(node.home, name), 'utf8')), { format: Number },
      `${name} carries a format number`)
  }

  for (const file of ['node.json', 'state/tokens.json']) {
    const at = fresh()
    cpSync(node.home, at, { recursive: true })
    const path = join(at, file)
    const value = existsSync(path) ? JSON.parse(readFileSync(path, 'utf8')) as object : { tokens: [] }
    for (const [format, message] of [[99, /has format 99, this svc supports up to 1; use the newer svc/],
      ['x', /has no format number/]] as const) {
      writeFileSync(path, JSON.stringify({ ...value, format }))
      const { status, stderr } = await svc(['up', '--json', '--home', at, '--port', '0'])
      t.equal(status, 1, file)
      t.match(stderr, message)
      t.match(stderr, file)
    }
    writeFileSync(path, '{"format":1')
    t.match((await svc(['up', '--json', '--home', at, '--port', '0'])).stderr,
      /is not valid JSON; restore it/)
  }
})

t.test('a member that lost its files is refused with the remedy', async (t) => {
  const cluster = await startCluster(t, { config: quiet, nodes: 2 })
  await cluster.agreed()
  const [first, member] = [cluster.members[0]!, cluster.members[1]!]
  const { home, node } = member
  const { installId } = JSON.parse(readFileSync(join(home, 'node.json'), 'utf8')) as { installId: string }
  await until('the control data on its disk', () => existsSync(join(home, 'state/control.json')))
  await member.kill()
  const again = `svc members remove ${installId}`
  const votes = 'state/promise.json'
  const lost = [
    ['node.json', `this node would not be the member ${installId}`,
      `"installId":"${installId}"}' > ${join(home, 'node.json')}`],
    ['state/members.json', 'this node would start a second cluster', 'Restore it from a backup'],
    [votes, 'this node could vote a second time', again],
    [votes, 'this node could vote a second time', again, undefined, 'state/control.json'],
    [votes, 'this node could vote a second time', again, '{"format":1'],
    [votes, 'this node could vote a second time', again, '{"format":1,"term":"3","votedFor":null,"boot":1}']
  ] as const
  for (const [file, why, remedy, damaged, also = file] of lost) {
    const path = join(home, file)
    const kept = [file, also].map((name) => [join(home, name), readFileSync(join(home, name))] as const)
    for (const [name] of kept) rmSync(name, { force: true })
    if (damaged !== undefined) writeFileSync(path, damaged)
    const how = damaged === undefined ? 'missing' : 'damaged'
    const { status, stderr } = await svc(['up', '--home', home, '--port', '0'])
    t.equal(status, 1, file)
    for (const text of [`${path} is ${how}`, why, remedy]) t.match(stderr, text)
    t.equal(existsSync(path), damaged !== undefined, 'it is not made anew')
    const asked = ['doctor', '--json', '--home', home, '--url', node.url]
    const { stdout } = await svc(asked, { env: { HOME: home } })
    const { checks } = JSON.parse(stdout) as { checks: { name: string, result: string }[] }
    t.match(checks.find(({ name }) => name === 'home'), { result: 'fail', code: 'home_incomplete', remedy })
    for (const [name, bytes] of kept) writeFileSync(name, bytes)
  }
  const { stdout } = await svc(['doctor', '--json', '--home', first.home, '--url', first.node.url],
    { env: { HOME: first.home } })
  t.match(stdout, /svc members remove/, 'the other side says what to do with it')
  writeFileSync(join(home, 'node.json'), JSON.stringify({ format: 1, installId }))
  await member.start()
  await cluster.agreed()
})
