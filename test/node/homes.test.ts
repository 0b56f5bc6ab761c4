import t from 'tap'
import { chmodSync, cpSync, existsSync, mkdtempSync, readdirSync, readFileSync, rmSync,
  writeFileSync } from 'node:fs'
import { spawnSync } from 'node:child_process'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { ask, streamed } from './http.js'
import { does, TTS } from './engine.js'
import { faultsConfig, folder, startNode, svc, until } from './kit.js'


t.test('homes and ports in use, and homes of a later version', async (t) => {
  const node = await startNode(t, { config: faultsConfig() })
  const fresh = (): string => join(folder(t), 'home')

  const port = await svc(['up', '--json', '--home', fresh(), '--port', String(node.port)])
  t.equal(port.status, 1)
  t.match(port.stderr, new RegExp(`port ${node.port} is in use by .*--port`))
  t.equal(port.stdout, '')

  const home = await svc(['up', '--json', '--home', node.home, '--port', '0'])
  t.equal(home.status, 1)
  t.match(home.stderr, new RegExp(`the home ${node.home} is in use by process ${node.pid}.*--home`))
  t.equal((await ask(node, '/node_id')).json, node.nodeId, 'the first one is left alone')
  t.equal((await streamed(node, TTS, does('test/ok', 'count', { chunks: 1 }))).last?.header.kind, 'completed')
  node.child.process.kill('SIGTERM')
  t.equal(await node.child.ended, 0)

  for (const file of ['node.json', 'state/tokens.json']) {
    const at = fresh()
    cpSync(node.home, at, { recursive: true })
    const path = join(at, file)
    const value = existsSync(path) ? JSON.parse(readFileSync(path, 'utf8')) as object : { tokens: [] }
    for (const [format, message] of [[99, /has format 99, this svc reads up to 1; use the newer svc/],
      ['x', /has format x/]] as const) {
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
  const open = fresh()
  cpSync(node.home, open, { recursive: true })
  chmodSync(join(open, 'operator.token'), 0o644)
  t.match((await svc(['up', '--home', open, '--port', '0'])).stderr,
    /operator\.token can be read by others; run: chmod 600/)
  const below = join(open, 'node.json', 'svc')
  const nowhere = await svc(['up', '--home', below, '--port', '0'])
  t.equal(nowhere.status, 1)
  t.match(nowhere.stderr, new RegExp(`cannot make the home ${below}: .*--home`))
})

const root = process.getuid?.() === 0 && process.platform === 'linux'
t.test('a home on a full disk', { skip: root ? false : 'mounting a small disk needs root on Linux' },
  async (t) => {
  const where = mkdtempSync(join(tmpdir(), 'svc-disk-'))
  const mounted = spawnSync('mount', ['-t', 'tmpfs', '-o', 'size=4m', 'tmpfs', where])
  if (mounted.status !== 0) {
    rmSync(where, { recursive: true })
    t.comment('skipped: this system lets nobody mount a disk')
    return
  }
  t.teardown(() => { spawnSync('umount', ['-l', where]); rmSync(where, { recursive: true, force: true }) })
  const home = join(where, 'home')
  const node = await startNode(t, { home, config: faultsConfig() })
  const health = async (): Promise<{ level: string, reasons: { code: string, remediation: string }[] }> => {
    const { nodeHealth } = (await ask(node, '/state')).json as { nodeHealth: Record<string,
      Awaited<ReturnType<typeof health>>> }
    return nodeHealth[node.nodeId]!
  }
  t.match(await until('disk_full', async () => { const h = await health(); return h.reasons.some((r) =>
    r.code === 'disk_full') && h }),
    { level: 'error', reasons: [{ remediation: String }] })
  for (const [n, size] of [1 << 20, 1 << 16, 1 << 12, 1].entries()) {
    try { for (let i = 0; ; i++) writeFileSync(join(where, `fill-${n}-${i}`),
      Buffer.alloc(size)) } catch { /* full */ }
  }
  const token = await ask(node, '/v1/tokens', { body: { label: 'x', authorities: ['read'] } })
  t.ok(token.status >= 500 || token.status === 200,
    `a token that cannot be kept: ${token.status} ${token.text.slice(0, 200)}`)
  if (token.status >= 500) {
    const { tokens } = (await ask(node, '/v1/tokens')).json as { tokens: unknown[] }
    t.equal(tokens.length, 0, 'a token that could not be kept is not there either')
  }
  t.notMatch(token.text, /ENOSPC.*\//, 'no path in the answer')
  t.equal((await streamed(node, TTS, does('test/ok', 'count', { chunks: 3 }))).last?.header.kind, 'completed',
    'speech goes on')
  const [runner] = node.runners()
  process.kill(runner!, 'SIGKILL')
  await until('the runner is back, or says why not', async () => {
    const { supervisorRunners } = (await ask(node,
      '/v1/diagnostics/node')).json as { supervisorRunners: { statusKind: string, pid: number | null }[] }
    return supervisorRunners.some((r) => r.pid !== runner && (r.statusKind === 'RunnerReady' ||
      r.statusKind === 'RunnerFailed'))
  })
  t.equal((await ask(node, '/healthz')).status, 200)
  await node.kill()
  const again = await svc(['up', '--json', '--home', join(where, 'second'), '--port', '0'])
  t.equal(again.status, 1, 'a new home on it is refused')
  t.match(again.stderr, /ENOSPC|no space/i)
  t.notMatch(again.stderr, /\n\s+at /, 'without a stack')
  for (const name of readdirSync(where)) if (name.startsWith('fill-')) rmSync(join(where, name))
  const back = await startNode(t, { home })
  t.equal((await streamed(back, TTS, does('test/ok', 'count', { chunks: 3 }))).last?.header.kind, 'completed',
    'with space again, all is well')
})
