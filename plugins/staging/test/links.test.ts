import { execFileSync } from 'node:child_process'
import {
  existsSync, linkSync, lstatSync, mkdirSync, readFileSync, readdirSync, renameSync, rmSync, symlinkSync
} from 'node:fs'
import { dirname, join } from 'node:path'
import t from 'tap'
import { openInside } from '../files/open.js'
import { CONTENT, ID, item, offered, world } from './stager-kit.js'
import { importFolder, open, scratch, until, write } from './store-kit.js'
import { wrongFiles } from './transfer-kit.js'
import type { Test } from './manager-kit.js'

/** Replaces the path `at` with a link or a pipe; `victim` is a folder that has a file `f`. */
type Kind = (at: string, victim: string) => void

const kinds: Record<string, Kind> = {
  'a link to a file': (at, victim) => { symlinkSync(join(victim, 'f'), at) },
  'a link to a folder': (at, victim) => { symlinkSync(victim, at) },
  'a link to nothing': (at, victim) => { symlinkSync(join(victim, 'new'), at) },
  'a hard link': (at, victim) => { linkSync(join(victim, 'f'), at) },
  'a pipe': (at) => { execFileSync('mkfifo', [at]) }
}

const FOLDER = 'acme--model'
/** Paths that svc writes, reads or clears under a root. */
const places = ['.incoming', '.trash', FOLDER, `.incoming/${FOLDER}`, ...[
  'm.gguf', 'a', 'a/b.txt', 'stray', '.svc-transfer', '.svc-journal', '.svc-journal.new', '.svc-journal.tmp',
  '.svc-job.json', '.svc-job.tmp', '.svc-job.json.tmp', '.svc-record.json', '.svc-record.json.tmp'
].map((name) => `.incoming/${FOLDER}/${name}`)]

/** Plants a link or pipe under a new root; returns a function that reads the victim for comparison. */
function plant (t: Test, root: string, place: string, kind: Kind): () => unknown {
  const victim = scratch(t)
  write(victim, { f: 'precious', 'm.gguf': 'theirs', 'sub/f': 'precious' })
  const at = join(root, place)
  rmSync(at, { recursive: true, force: true })
  mkdirSync(dirname(at), { recursive: true })
  const transfer = `.incoming/${FOLDER}`
  if (place.startsWith(`${transfer}/`)) write(join(root, transfer), { '.svc-transfer': '' })
  rmSync(at, { force: true })
  kind(at, victim)
  return () => readdirSync(victim, { recursive: true, encoding: 'utf8' }).sort().map((path) => {
    const stats = lstatSync(join(victim, path))
    return [path, stats.mode, stats.mtimeMs, stats.isFile() ? readFileSync(join(victim, path), 'utf8') : '']
  })
}

for (const [name, kind] of Object.entries(kinds)) {
  t.test(`${name} planted below a staging folder`, async (t) => {
    const one = item(t, { bundled: true })
    for (const place of places) {
      const { stager, staging } = await world(t, () => offered(one))
      const seen = plant(t, staging.root, place, kind)
      const before = seen()
      await stager.stage(ID).ended
      await staging.touch(ID, 5).catch(() => {})
      await staging.remove(ID).catch(() => {})
      await staging.discard(ID).catch(() => {})
      await staging.sweep({ olderThanMs: -1, live: new Set() }).catch(() => {})
      t.same(seen(), before, place)
    }
  })

  t.test(`${name} planted below a store`, async (t) => {
    const source = write(scratch(t), { 'model.onnx': 'weights', 'a/b.txt': 'text' })
    for (const place of places) {
      const folder = scratch(t)
      await (await open(t, folder)).close()
      const seen = plant(t, folder, place, kind)
      const before = seen()
      const store = await open(t, folder).catch(() => undefined)
      if (store !== undefined) await importFolder(store, source, 'acme/model').catch(() => {})
      await store?.remove('acme/model').catch(() => {})
      t.same(seen(), before, place)
    }
  })
}

t.test('links that come and go while files are opened', async (t) => {
  const [root, victim] = [join(scratch(t), 'model'), scratch(t)]
  mkdirSync(join(root, 'a'), { recursive: true })
  let over = false
  const a = join(root, 'a')
  /** Retries `make`, because a concurrent open may have created the folder again in the meantime. */
  const put = (make: () => void): void => {
    try {
      make()
    } catch (error) {
      if (!['EEXIST', 'ENOTEMPTY'].includes((error as NodeJS.ErrnoException).code ?? '')) throw error
      rmSync(a, { recursive: true })
      put(make)
    }
  }
  const swap = (async () => {
    for (let i = 0; !over; i++) {
      renameSync(a, join(root, `real${i}`))
      put(() => { symlinkSync(victim, a) })
      await new Promise((resolve) => { setImmediate(resolve) })
      rmSync(a)
      put(() => { renameSync(join(root, `real${i}`), a) })
      await new Promise((resolve) => { setImmediate(resolve) })
    }
  })()
  let made = 0
  await Promise.all(Array.from({ length: 400 }, async (_, i) => {
    await openInside(root, `a/f${i}`, 'create').then(async (file) => { made++; await file.close() }, () => {})
  }))
  over = true
  await swap
  t.same(readdirSync(victim), [])
  t.comment(`${made} of 400 were made where they belong`)
})

t.test('what was planted is no hindrance where svc may clear it', async (t) => {
  const one = item(t, { bundled: true })
  for (const name of ['stray', 'm.gguf', '.svc-journal', '.svc-journal.tmp']) {
    const { stager, staging } = await world(t, () => offered(one))
    plant(t, staging.root, `.incoming/${FOLDER}/${name}`, kinds['a link to a file']!)
    const job = stager.stage(ID)
    await until(() => job.over)
    t.equal(job.state, 'complete', name)
    t.same(await wrongFiles(join(staging.root, FOLDER), CONTENT), [])
    t.notOk(existsSync(join(staging.root, '.incoming', FOLDER)))
  }
})
