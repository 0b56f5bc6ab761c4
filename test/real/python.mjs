// Virtual environments with Python programs, for the tests. Each is installed once from pinned packages into
// $XDG_CACHE_HOME/svc-test/NAME. Needs Python 3.11 or 3.12 and PyPI.
import { spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { homedir } from 'node:os'
import { join } from 'node:path'

const UV = 'uv==0.13.9'
const PYTHONS = ['python3.11', 'python3.12', 'python3']

const python = () => PYTHONS.find((name) => {
  const { stdout } = spawnSync(name, ['-c', 'import sys, venv; print(*sys.version_info[:2])'],
    { encoding: 'utf8' })
  return stdout === '3 11\n' || stdout === '3 12\n'
})

/** `folder` with the programs of the environment, installed if necessary, or why it is `missing`. */
export function pythonEnvironment (name, requirements) {
  const folder = join(process.env['XDG_CACHE_HOME'] ?? join(homedir(), '.cache'), 'svc-test', name)
  const venv = join(folder, 'venv')
  /** Holds the hash of the requirements that are installed completely. */
  const stamp = join(folder, 'installed')
  const hash = createHash('sha256').update(readFileSync(requirements)).digest('hex')
  const installed = existsSync(stamp) && readFileSync(stamp, 'utf8')
  if (installed === hash && existsSync(join(venv, 'bin/python'))) return { folder: join(venv, 'bin') }
  const interpreter = python()
  if (interpreter === undefined) {
    return { missing: `needs ${PYTHONS.slice(0, 2).join(' or ')} (Debian: apt install python3-venv)` }
  }
  rmSync(venv, { recursive: true, force: true })
  mkdirSync(folder, { recursive: true })
  const steps = [
    [interpreter, '-m', 'venv', venv],
    [join(venv, 'bin/pip'), 'install', '--quiet', UV],
    // The system's certificates, because those of uv are not the ones that a proxy may need.
    [join(venv, 'bin/uv'), 'pip', 'install', '--quiet', '--system-certs', '--no-deps',
      '--python', join(venv, 'bin/python'), '--requirements', requirements]
  ]
  const env = { ...process.env, UV_HTTP_TIMEOUT: '300' }
  for (const step of steps) {
    const { status, stderr } = spawnSync('nice', step,
      { stdio: ['ignore', 'ignore', 'pipe'], encoding: 'utf8', env })
    if (status !== 0) {
      return { missing: `needs PyPI: ${step.slice(0, 3).join(' ')} failed: ${stderr?.trim().slice(-400)}` }
    }
  }
  writeFileSync(stamp, hash)
  return { folder: join(venv, 'bin') }
}
