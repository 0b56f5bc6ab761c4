import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import t, { type Test } from 'tap'
import { quiet, startCluster } from './cluster-kit.js'
import { cli, run, svc, until } from './kit.js'

interface Line { nodeId: string, node: string, seq: number, at: string, message: string }

/** Receives shipped log lines on loopback. */
async function receiver (t: Test): Promise<{ url: string, lines: { node: string, msg: string }[] }> {
  const lines: { node: string, msg: string }[] = []
  const server = createServer((request, response) => {
    const parts: Buffer[] = []
    request.on('data', (part: Buffer) => { parts.push(part) })
    request.on('end', () => {
      const text = Buffer.concat(parts).toString()
      lines.push(...text.trimEnd().split('\n').map((line) => JSON.parse(line) as typeof lines[0]))
      response.writeHead(204).end()
    })
  })
  await new Promise<void>((resolve) => { server.listen(0, '127.0.0.1', resolve) })
  t.teardown(() => { server.closeAllConnections(); server.close() })
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/`, lines }
}

const read = (text: string): Line[] =>
  text.split('\n').filter((line) => line.endsWith('}')).map((line) => JSON.parse(line) as Line)

t.test('svc logs: two nodes in one order, and one followed while it restarts', async (t) => {
  const place = await receiver(t)
  const config = { ...quiet, logging: { ingest_url: place.url } }
  const cluster = await startCluster(t, { nodes: 2, config })
  const [first, second] = cluster.members as [typeof cluster.members[0], typeof cluster.members[0]]
  const names = [first.name, second.name]
  const at = ['--url', first.node.url, '--token', first.node.token]

  const page = await svc(['logs', '--json', ...at])
  t.equal(page.status, 0, page.stderr)
  const lines = read(page.stdout)
  const listened = lines.filter(({ message }) => message === 'listening').map(({ node }) => node)
  t.same(new Set(listened), new Set(names))
  t.same(lines.map(({ at }) => at), lines.map(({ at }) => at).sort(), 'in order of time')
  const one = await svc(['logs', '--json', '--node', second.name, '--grep', 'LISTENING', ...at])
  t.same(read(one.stdout).map(({ node, message }) => [node, message]), [[second.name, 'listening']])
  t.equal((await svc(['logs', '--node', 'nobody', ...at])).status, 3)
  t.equal((await svc(['logs', '--url', first.node.url, '--token', 'none'])).status, 5, 'for operators only')

  const words = ['logs', '-f', '--node', second.name, '--json', ...at]
  const following = run(process.execPath, [cli, ...words], { env: { HOME: first.home } })
  const heard = (): Line[] => read(following.stdout())
  await until('the lines there are', () => heard().some(({ node }) => node === second.name))
  const before = second.node.nodeId
  await second.kill()
  await second.start()
  await until('its first output', () =>
    heard().some(({ nodeId, message }) => message === 'listening' && nodeId === second.node.nodeId))
  t.not(second.node.nodeId, before)
  const seen = heard().map(({ nodeId, seq }) => `${nodeId}:${seq}`)
  t.equal(new Set(seen).size, seen.length, 'each line once')
  following.process.kill('SIGINT')
  t.equal(await following.ended, 130)

  await until('the shipped lines of both nodes', () => [first, second].every(({ node: { nodeId } }) =>
    place.lines.some(({ node, msg }) => node === nodeId && msg === 'listening')))
})
