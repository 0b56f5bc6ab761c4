/** A disk of its own for the event log: a file with a file system in it, which can be full and can stall. */
import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, mkdtempSync, rmSync, statfsSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

// Sparse: takes room for what is written only. Twice the room the event log wants to have free.
const SIZE = '5G'
const LEFT = 1024 * 1024 * 1024

function run (command, ...args) {
  const { status, stderr, error } = spawnSync(command, args, { encoding: 'utf8' })
  if (status !== 0) throw new Error(`${command} ${args.join(' ')}: ${error?.message ?? stderr.trim()}`)
}

/**
 * Mounts a disk at `folder`. Throws where that cannot be: it needs Linux and root. `stall()` resolves once
 * nothing on it is written any more (every writer waits in the kernel) and answers what ends that; so
 * does the end of this process, whatever ends it. `fill()` leaves 1 GiB free, and answers what gives the
 * rest back.
 */
export function mountDisk (folder) {
  if (process.platform !== 'linux' || process.getuid() !== 0) throw new Error('it needs root on Linux')
  const place = mkdtempSync(join(tmpdir(), 'svc-bench-disk-'))
  const image = join(place, 'image')
  const drop = () => { rmSync(place, { recursive: true, force: true }) }
  try {
    mkdirSync(folder, { recursive: true, mode: 0o700 })
    run('truncate', '-s', SIZE, image)
    run('mkfs.ext4', '-q', '-F', '-m', '0', image)
    run('mount', '-o', 'loop', image, folder)
  } catch (error) {
    drop()
    throw error
  }
  const unmount = () => {
    // Nothing to end as a rule: an interrupted benchmark may leave it stalled.
    spawnSync('fsfreeze', ['-u', folder])
    spawnSync('umount', ['-l', folder])
    drop()
  }
  process.once('exit', unmount)
  return {
    stall: () => stall(folder),
    fill () {
      const ballast = join(folder, 'ballast')
      const { bavail, bsize } = statfsSync(folder)
      run('fallocate', '-l', `${bavail * bsize - LEFT}`, ballast)
      return () => { rmSync(ballast) }
    },
    unmount () {
      process.off('exit', unmount)
      unmount()
    }
  }
}

async function stall (folder) {
  const holder = spawn('sh', ['-c', 'fsfreeze -f "$0" && echo && cat; fsfreeze -u "$0" 2>/dev/null', folder],
    { stdio: ['pipe', 'pipe', 'inherit'], detached: true })
  const ended = once(holder, 'exit')
  const [held] = await Promise.race([once(holder.stdout, 'data'), ended.then(() => [null])])
  if (held === null) throw new Error('fsfreeze: the disk could not be stalled')
  return async () => {
    holder.stdin.end()
    await ended
  }
}
