import t from 'tap'
import { mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { spawnSync } from 'node:child_process'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { ask, streamed } from './http.js'
import { does, TTS } from './engine.js'
import { faultsConfig, startNode, svc, until } from './kit.js'

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
    t.match(await until('disk_full', async () => {
      const h = await health(); return h.reasons.some((r) =>
        r.code === 'disk_full') && h
    }),
    { level: 'error', reasons: [{ remediation: String }] })
    t.match((await ask(node, '/store/storage')).json, { eventLogMode: 'counting-only' }, 'below the floor')
    for (const [n, size] of [1 << 20, 1 << 16, 1 << 12, 1].entries()) {
      try {
        for (let i = 0; ; i++) writeFileSync(join(where, `fill-${n}-${i}`),
          Buffer.alloc(size))
      } catch { /* full */ }
    }
    const token = await ask(node, '/v1/tokens', { body: { label: 'x', authorities: ['read'] } })
    t.ok(token.status >= 500 || token.status === 200,
      `a token that cannot be kept: ${token.status} ${token.text.slice(0, 200)}`)
    if (token.status >= 500) {
      const { tokens } = (await ask(node, '/v1/tokens')).json as { tokens: unknown[] }
      t.equal(tokens.length, 0, 'a token that could not be kept is not there either')
      t.match(token.text, /tokens\.json .*ENOSPC/, 'the file is named')
    }
    const heardNode = await streamed(node, TTS, does('test/ok', 'count', { chunks: 3 }))
    t.equal(heardNode.last?.header.kind, 'completed',
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
    const heardBack = await streamed(back, TTS, does('test/ok', 'count', { chunks: 3 }))
    t.equal(heardBack.last?.header.kind, 'completed',
      'with space again, all is well')
  })
