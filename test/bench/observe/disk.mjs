/** A separate disk for the event log: a file with a file system, which can be filled and stalled. */
import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, mkdtempSync, rmSync, statfsSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

// Twice the free space that the event log requires. The file is sparse and occupies only written blocks.
const SIZE = '5G'
const LEFT = 1024 * 1024 * 1024

function run (command, ...args) {
  const { status, stderr, error } = spawnSync(command, args, { encoding: 'utf8' })
  if (status !== 0) throw new Error(`${command} ${args.join(' ')}: ${error?.message ?? stderr.trim()}`)
}

/**
 * Mounts a disk at `folder`. Throws if that is impossible, since it needs Linux and root. `stall()` resolves
 * once all writers block in the kernel, and returns a function that ends the stall. This process's exit
 * ends it too. `fill()` leaves 1 GiB free, and returns a function that frees the rest.
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
    // An interrupted benchmark may have left the disk stalled.
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
  if (held === null) throw new Error('fsfreeze: the disk could not be frozen')
  return async () => {
    holder.stdin.end()
    await ended
  }
}
