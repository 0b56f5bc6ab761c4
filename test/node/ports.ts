/** Unused ports for nodes that need fixed ports before they start. */
import { randomInt } from 'node:crypto'
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { join } from 'node:path'
import { alive } from './proc.js'

/**
 * Size of a test file's port range. Concurrent files need separate ranges, as a file might otherwise take
 * a port that another file has just found unused.
 */
const RANGE = 4_000
const FIRST_PORT = 15_000 + RANGE * (Number(process.env['TAP_JOB_ID'] ?? 0) % 4)
/** Folder with one file for each port that a test run of this user holds on this machine. */
const HELD = `/tmp/svc-test-ports-${process.getuid?.() ?? 0}`

/**
 * Reserves ports for this process, below the range from which systems assign outgoing ports. A cluster needs
 * its ports before it starts, and keeps them across restarts.
 */
export async function freePorts (count: number): Promise<number[]> {
  const ports = new Set<number>()
  while (ports.size < count) {
    const port = randomInt(FIRST_PORT, FIRST_PORT + RANGE)
    if (hold(port) && await listens(port)) ports.add(port)
  }
  return [...ports]
}

/** Reserves a port for this process; false if another live process holds the port. */
function hold (port: number): boolean {
  const path = join(HELD, String(port))
  mkdirSync(HELD, { recursive: true })
  try {
    writeFileSync(path, String(process.pid), { flag: 'wx' })
  } catch {
    const holder = existsSync(path) ? Number(readFileSync(path, 'utf8')) : 0
    if (holder !== 0 && !alive(holder)) rmSync(path, { force: true })
    return false
  }
  process.once('exit', () => { rmSync(path, { force: true }) })
  return true
}

/** Whether this process can listen on a port. */
function listens (port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const server = createServer()
    server.once('error', () => { resolve(false) })
    server.listen(port, '127.0.0.1', () => { server.close(() => { resolve(true) }) })
  })
}
