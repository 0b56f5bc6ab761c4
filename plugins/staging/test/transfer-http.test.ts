import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import t from 'tap'
import { CHUNK_BYTES } from '../types.js'
import {
  MIB, contentOf, fetchInto, httpSource, manifestOf, memorySource, startServer, wrongFiles
} from './transfer-kit.js'

t.test('over HTTP: whole, and each connection is used again', async (t) => {
  const content = contentOf({ 'a/model.onnx': CHUNK_BYTES + 5 * MIB + 3, 'config.json': 4000, 'b.json': 1 })
  const server = await startServer(content)
  const source = httpSource(server.url)
  t.teardown(async () => { await source.close(); await server.close() })
  const folder = t.testdir()
  await fetchInto(folder, manifestOf(content), [source])
  t.same(await wrongFiles(folder, content), [])
  t.equal(server.asked(), manifestOf(content).totalBytes)
  t.ok(server.connections() <= 4, `${server.connections()} connections`)
})

t.test('killed in the middle, at several points: at most one chunk\'s bytes are fetched again', async (t) => {
  const content = contentOf({ 'model.onnx': 2 * CHUNK_BYTES + 3 * MIB, 'other.bin': CHUNK_BYTES - 5 })
  const manifest = manifestOf(content)
  const folder = t.testdir({ incoming: {} })
  // Slow down the server, so that the child has received the bytes that the server counts as sent.
  const server = await startServer(content, { pauseMs: 1 })
  t.teardown(async () => { await server.close() })
  const file = join(folder, 'manifest.json')
  await writeFile(file, JSON.stringify(manifest))
  const child = fileURLToPath(new URL('transfer-child.ts', import.meta.url))
  const loader = `--import=${new URL('../../../test/tools/typescript.mjs', import.meta.url).href}`
  for (const part of [0.3, 0.7]) {
    const incoming = join(folder, 'incoming')
    const running = spawn(process.execPath, [loader, child, file, incoming, server.url], {
      stdio: ['ignore', 'ignore', 'inherit']
    })
    await server.until(part * manifest.totalBytes)
    running.kill('SIGKILL')
    t.same(await once(running, 'exit'), [null, 'SIGKILL'], `killed at ${part}`)
    t.ok(server.sent() < manifest.totalBytes, `${server.sent()} bytes sent by then`)
  }
  const source = httpSource(server.url)
  t.teardown(async () => { await source.close() })
  await fetchInto(join(folder, 'incoming'), manifest, [source])
  t.same(await wrongFiles(join(folder, 'incoming'), content), [])
  const again = server.sent() - manifest.totalBytes
  t.comment(`${again} bytes sent twice over two kills`)
  t.ok(again <= 2 * CHUNK_BYTES, `${again} bytes sent twice over two kills`)
})

t.test('many small files: as many at once as there are places', async (t) => {
  const sizes = Object.fromEntries(Array.from({ length: 600 }, (_, i) =>
    [`${i % 10}/${i}.json`, 100 + i % 1000]))
  const content = contentOf(sizes)
  const folder = t.testdir()
  let [now, most] = [0, 0]
  let release = (): void => {}
  const together = new Promise<void>((resolve) => { release = resolve })
  const source = memorySource(content, { spoil: (right) => (async function * () {
    most = Math.max(most, ++now)
    // The first six requests wait for each other, so with fewer in parallel the test would hang.
    if (now === 6) release()
    await together
    yield right
    now--
  })() })
  await fetchInto(folder, manifestOf(content), [source])
  t.same(await wrongFiles(folder, content), [])
  t.equal(most, 6)
  t.equal(source.asked.length, 600)
})
