/** libfaketime from Debian, which shifts the wall clock of whole processes, OpenSSL's included. */
import { spawnSync } from 'node:child_process'
import { existsSync, mkdirSync, readdirSync, writeFileSync } from 'node:fs'
import { homedir } from 'node:os'
import { join } from 'node:path'
import { folder } from '../../node/kit.js'
import type { Test } from 'tap'

/** The version of Debian 12. */
const PACKAGE = 'libfaketime=0.9.10-2.1'
const cache = join(process.env['XDG_CACHE_HOME'] ?? join(homedir(), '.cache'), 'svc-test', PACKAGE)

function find (): string | undefined {
  if (!existsSync(cache)) return undefined
  const names = readdirSync(cache, { recursive: true, encoding: 'utf8' })
  return names.find((name) => name.endsWith('/libfaketime.so.1'))
}

/** Path of the library, which is downloaded if it is missing, or why there is none. */
export function faketime (): { path: string } | { missing: string } {
  if (find() === undefined) {
    mkdirSync(cache, { recursive: true })
    spawnSync('sh', ['-c', `apt-get download ${PACKAGE} && dpkg -x libfaketime_*.deb .`],
      { cwd: cache, stdio: 'ignore', timeout: 120_000 })
  }
  const found = find()
  return found === undefined ? { missing: `needs ${PACKAGE} from Debian` } : { path: join(cache, found) }
}

/** Environment that shifts the wall clock of a node and its runners; `set` makes the clock jump. */
export function shifted (
  t: Test, library: string
): { env: Record<string, string>, set (seconds: number): void } {
  const path = join(folder(t), 'offset')
  const set = (seconds: number): void => { writeFileSync(path, `${seconds < 0 ? '' : '+'}${seconds}\n`) }
  set(0)
  return { set, env: {
    LD_PRELOAD: library, FAKETIME_TIMESTAMP_FILE: path, FAKETIME_CACHE_DURATION: '1',
    // A clock that is set jumps; monotonic time, and with it all timers, goes on.
    FAKETIME_DONT_FAKE_MONOTONIC: '1', DONT_FAKE_MONOTONIC: '1', NO_FAKE_STAT: '1'
  } }
}
