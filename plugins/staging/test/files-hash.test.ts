import { execFileSync } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { linkSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { EMPTY_SHA256 } from '../files/record.js'
import { hashFile } from '../files/hash.js'
import { sizeOf } from '../files/walk.js'
import { volumeOf } from '../files/folders.js'
import { CHUNK_BYTES } from '../types.js'
import { scratch, sha256, write } from './files-kit.js'

t.test('hashes of a file', async (t) => {
  const folder = scratch(t)
  const data = randomBytes(CHUNK_BYTES * 2 + 1)
  const { length } = data
  for (const size of [1, 1024 * 1024 + 1, CHUNK_BYTES, CHUNK_BYTES + 1, CHUNK_BYTES * 2, length]) {
    const path = join(folder, `f${size}`)
    const bytes = data.subarray(0, size)
    writeFileSync(path, bytes)
    const chunkSha256: string[] = []
    for (let at = 0; at < size; at += CHUNK_BYTES) {
      chunkSha256.push(sha256(bytes.subarray(at, at + CHUNK_BYTES)))
    }
    let told = 0
    const hashes = await hashFile(path, { onBytes: (n) => { told += n } })
    t.same(hashes, { size, sha256: sha256(bytes), chunkSha256 }, `${size} bytes`)
    t.equal(told, size)
  }
  writeFileSync(join(folder, 'empty'), '')
  t.same(await hashFile(join(folder, 'empty')), { size: 0, sha256: EMPTY_SHA256, chunkSha256: [] })
  t.equal(EMPTY_SHA256, sha256(''))
})

t.test('the event loop is free in between, and a signal stops it', async (t) => {
  const path = join(scratch(t), 'big')
  writeFileSync(path, Buffer.alloc(8 * 1024 * 1024))
  let turns = 0
  let over = false
  const turn = (): void => {
    turns++
    if (!over) setImmediate(turn)
  }
  turn()
  await hashFile(path)
  over = true
  t.ok(turns >= 8, `${turns} turns`)
  const abort = new AbortController()
  const reason = new Error('enough')
  await t.rejects(hashFile(path, { signal: abort.signal, onBytes: () => { abort.abort(reason) } }),
    { message: 'enough' })
  await t.rejects(hashFile(path, { signal: AbortSignal.abort(reason) }), { message: 'enough' })
})

t.test('only regular files that stay as they are', async (t) => {
  const folder = scratch(t)
  write(folder, { real: 'x'.repeat(3 * 1024 * 1024) })
  symlinkSync('real', join(folder, 'link'))
  execFileSync('mkfifo', [join(folder, 'pipe')])
  for (const name of ['link', 'pipe', '']) {
    await t.rejects(hashFile(join(folder, name)), { name: 'PathError' }, name)
  }
  await t.rejects(hashFile('/dev/zero'), { name: 'PathError' })
  await t.rejects(hashFile(join(folder, 'absent')), { code: 'ENOENT' })
  const rewrite = (): void => { writeFileSync(join(folder, 'real'), 'short') }
  await t.rejects(hashFile(join(folder, 'real'), { onBytes: rewrite }),
    { message: /changed while it was read/ })
})

t.test('volumes and sizes', async (t) => {
  const folder = scratch(t)
  write(folder, { a: 'xx', 'b/c': 'xxx', '.last_used': '', 'b/.last_used': 'x' })
  symlinkSync('/', join(folder, 'root'))
  linkSync(join(folder, 'a'), join(folder, 'again'))
  t.equal(await sizeOf(folder), 8)
  t.equal(await sizeOf(join(folder, 'absent')), 0)
  const here = await volumeOf(folder)
  t.ok(here.totalBytes >= here.freeBytes && here.freeBytes > 0)
  t.equal((await volumeOf(join(folder, 'x/y/z'))).device, here.device, 'of the nearest parent that exists')
  t.not((await volumeOf('/proc/self')).device, here.device)
  await t.rejects(volumeOf(join(folder, 'a', 'below')), { code: 'ENOTDIR' })
})
