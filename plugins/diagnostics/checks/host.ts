import { existsSync, statfsSync } from 'node:fs'
import { access, constants } from 'node:fs/promises'
import { dirname } from 'node:path'
import { createServer } from 'node:net'
import { satisfies } from 'semver'
import { missingHomeFile, nodeRange, START_BYTES, SvcError, tryWrite } from '../../../kernel/index.js'
import { fail, judgeDisk, ok, portHolder, type Check } from '../../../kernel/cli/index.js'

/** Compares the Node version with `engines` in package.json. */
export function checkNode (running: string, required = nodeRange()): Check {
  return satisfies(running, required)
    ? ok('node version', `Node ${running} (needs ${required})`)
    : fail('node version', `Node ${running} is older than ${required}`, `Install Node ${required}.`)
}

/** Checks that the home, or its nearest existing parent, is writable and that no home file is missing. */
export async function checkHome (home: string): Promise<Check> {
  const folder = nearestFolder(home)
  try {
    await access(folder, constants.W_OK | constants.X_OK)
    if (folder === home) await tryWrite(home, START_BYTES)
  } catch (error) {
    if (error instanceof SvcError) {
      return fail('home', error.message, 'Free disk space, or choose another home with --home.',
        { code: 'home_unwritable' })
    }
    return fail('home', `${folder} cannot be written: ${(error as NodeJS.ErrnoException).code ?? 'unknown'}`,
      'Change its owner or its permissions, or choose another home with --home.')
  }
  const lost = missingHomeFile(home)
  if (lost !== null) return fail('home', lost.message, lost.remedy, { code: 'home_incomplete' })
  return ok('home', folder === home ? `${home} can be written` : `${home} will be created at the first start`)
}

function nearestFolder (path: string): string {
  let folder = path
  while (!existsSync(folder) && dirname(folder) !== folder) folder = dirname(folder)
  return folder
}

export function checkDisk (home: string): Check {
  const { bavail, blocks, bsize } = statfsSync(nearestFolder(home))
  return judgeDisk(bavail * bsize, blocks * bsize)
}

/** Checks that the ports are free; not used while a node runs here, as it occupies them itself. */
export async function checkPorts (ports: readonly number[]): Promise<Check> {
  const taken: string[] = []
  for (const port of ports) {
    const code = await listenProblem(port)
    if (code === null) continue
    const holder = code === 'EADDRINUSE' ? portHolder(port) : undefined
    const who = holder === undefined ? code : `process ${holder.pid} (${holder.command.slice(0, 80)})`
    taken.push(`port ${port}: ${who}`)
  }
  return taken.length === 0
    ? ok('ports', `${ports.join(' and ')} are free`)
    : fail('ports', taken.join('; '), 'Stop the program that uses it, or start the node with another --port.')
}

function listenProblem (port: number): Promise<string | null> {
  return new Promise((resolve) => {
    const server = createServer()
    server.on('error', (error: NodeJS.ErrnoException) => { resolve(error.code ?? error.message) })
    server.listen({ host: '127.0.0.1', port }, () => { server.close(() => { resolve(null) }) })
  })
}
