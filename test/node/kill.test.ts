import t from 'tap'
import { existsSync, readdirSync, symlinkSync } from 'node:fs'
import { delimiter, join } from 'node:path'
import { readStream, stream, streamed } from './http.js'
import { does, TTS } from './engine.js'
import { faultsConfig, figure, folder, full, pick, startNode, until, type TestNode } from './kit.js'
import { alive, cmdline, descendants } from './proc.js'

t.test('T-R02: kill -9 leaves nothing behind', async (t) => {
  const rows: [string, NodeJS.ProcessEnv['PATH'], (node: TestNode) => number][] = [
    ['the node', undefined, (node) => node.pid],
    ['the launcher', undefined, (node) => node.child.pid],
    ['the node, without setpriv', 'bare', (node) => node.pid],
    ['the launcher, without setpriv', 'bare', (node) => node.child.pid]
  ]
  const bare = pathWithout(t, 'setpriv')
  let slowest = 0
  for (const [who, path, victim] of rows) {
    for (let n = 0; n < pick(1, 5); n++) {
      const node = await startNode(t, { config: faultsConfig(),
        ...(path === undefined ? {} : { env: { PATH: bare } }) })
      const below = [node.pid, ...descendants(node.pid), node.child.pid]
      t.ok(node.runners().length === 1 && below.length >= 3)
      const opened = await stream(node, TTS, does('test/ok', 'count', { delayMs: 10 }))
      await opened.frames.next()
      const start = performance.now()
      process.kill(victim(node), 'SIGKILL')
      await until(`all of it to end after kill -9 of ${who}`, () => below.every((pid) => !alive(pid)),
        { seconds: 15, everyMs: 5 })
        .catch((error: Error) => {
          t.fail(`${error.message}: left are ${below.filter(alive).map(cmdline).join(' | ')}`)
        })
      slowest = Math.max(slowest, performance.now() - start)
      await node.child.ended
      t.equal((await readStream(opened)).terminals, 0, 'the stream is cut, not ended')
      if (path !== undefined && !full) continue
      // The home must be usable again, whatever the killed processes left in it.
      const again = await startNode(t, { home: node.home })
      t.equal((await streamed(again, TTS, does('test/ok', 'count', { chunks: 1 }))).last?.header.kind,
        'completed',
        `after ${who}`)
      await again.kill()
    }
  }
  figure(t, 'T-R02', t.passing(), { orphans: 0, slowestMs: Math.round(slowest) })
})

/** This process's PATH without one program. */
function pathWithout (t: Parameters<typeof folder>[0], program: string): string {
  const where = folder(t)
  for (const dir of (process.env['PATH'] ?? '').split(delimiter)) {
    for (const name of existsSync(dir) ? readdirSync(dir) : []) {
      if (name !== program && !existsSync(join(where, name))) {
        try { symlinkSync(join(dir, name), join(where, name)) } catch { /* two of one name */ }
      }
    }
  }
  return where
}
