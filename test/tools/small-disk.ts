import { spawnSync } from 'node:child_process'
import { mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

interface Teardown { teardown (fn: () => void): unknown }

/** Skip reason for tests that need a small disk; false if one can be mounted. */
export const noSmallDisk: string | false = ((): string | false => {
  const root = process.getuid?.() === 0
  if (!root || process.platform !== 'linux') return 'only root on Linux mounts disks'
  const probe = mkdtempSync(join(tmpdir(), 'svc-mount-'))
  const { status } = spawnSync('mount', ['-t', 'tmpfs', 'tmpfs', probe])
  if (status === 0) spawnSync('umount', ['-l', probe])
  rmSync(probe, { recursive: true })
  return status === 0 ? false : 'this system does not allow mounting a disk'
})()

export interface SmallDisk {
  readonly path: string
  /** Fills the disk until `leave` bytes are free; completely without `leave`. */
  fill (leave?: number): void
  /** Removes the files that `fill` created. */
  free (): void
}

/** Mounts a memory disk of that size, such as `8m`; the test unmounts it. */
export function smallDisk (t: Teardown, size: string): SmallDisk {
  const path = mkdtempSync(join(tmpdir(), 'svc-disk-'))
  const mount = (options: string): boolean =>
    spawnSync('mount', ['-t', 'tmpfs', '-o', options, 'tmpfs', path]).status === 0
  if (!mount(`size=${size}`)) throw new Error(`cannot mount a disk at ${path}`)
  t.teardown(() => {
    spawnSync('umount', ['-l', path])
    rmSync(path, { recursive: true, force: true })
  })
  const filler = (name: string): string => join(path, `fill-${name}`)
  return {
    path,
    fill (leave = 0) {
      if (leave > 0) writeFileSync(filler('spare'), Buffer.alloc(leave))
      for (const size of [1 << 20, 1 << 16, 1 << 12, 1]) {
        const block = Buffer.alloc(size)
        try {
          for (let i = readdirSync(path).length; ; i++) writeFileSync(filler(`${size}-${i}`), block)
        } catch { /* full */ }
      }
      rmSync(filler('spare'), { force: true })
    },
    free () { for (const name of readdirSync(path)) if (name.startsWith('fill-')) rmSync(join(path, name)) }
  }
}
