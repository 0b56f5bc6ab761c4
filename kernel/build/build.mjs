// Builds svc unless the newest build is fresh: `npm run build`, `npm run prepare`, ./svc.
// A build gets its own folder, dist/<hash of the sources>, which never changes, so running nodes keep theirs.
// Files at stable paths, such as dist/kernel/cli/main.js, import from the newest build.
import { spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { existsSync, readFileSync, rmSync, utimesSync } from 'node:fs'
import { join } from 'node:path'
import { dist, linkAt, linkBin, root, sources } from './paths.mjs'

/** Hash of all sources: 16 hexadecimal digits. */
function hashOfSources () {
  const hash = createHash('sha256')
  const settings = ['package.json', 'package-lock.json', 'tsconfig.json', 'tsconfig.build.json']
  for (const path of [...settings, ...sources('kernel'), ...sources('plugins')].sort()) {
    if (existsSync(join(root, path))) hash.update(`${path}\n`).update(readFileSync(join(root, path)))
  }
  return hash.digest('hex').slice(0, 16)
}

/** Whether the build is fresh. Sets its time to `started` (in s), which ./svc compares with the sources. */
function fresh (name, started) {
  const main = join(dist, 'kernel/cli/main.js')
  if (linkAt(join(dist, 'current')) !== name || !existsSync(main)) return false
  try {
    linkBin()
    utimesSync(main, started, started)
  } catch { /* Another user built it, so its time cannot be set. */ }
  return true
}

async function build () {
  const started = Date.now() / 1000
  const name = hashOfSources()
  if (fresh(name, started)) return
  if (!existsSync(join(root, 'node_modules/esbuild'))) {
    throw new Error(`the packages of ${root} are not installed; run: cd ${root} && npm ci`)
  }
  // Removes the files of release 0.1.0, which was built directly into dist.
  if (existsSync(join(dist, 'chunks'))) rmSync(dist, { recursive: true })
  const tsc = [join(root, 'node_modules/typescript/bin/tsc'), '-p', 'tsconfig.build.json']
  const { status } = spawnSync(process.execPath, tsc, { cwd: root, stdio: 'inherit' })
  if (status !== 0) throw new Error('the types are wrong')
  const [{ bundle }, { page }, { publish }] = await Promise.all(
    ['./bundle.mjs', './page.mjs', './publish.mjs'].map((module) => import(module)))
  const parts = [await bundle(), await page()]
  // The sources changed during the build, so the hash in the folder's name no longer fits.
  if (hashOfSources() !== name) return await build()
  await publish(name, ...parts)
  fresh(name, started)
}

try {
  await build()
} catch (error) {
  process.stderr.write(`svc is not built: ${error.message}\n`)
  process.exitCode = 1
}
