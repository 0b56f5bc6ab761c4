/** A real node with the models that ship, and the clients of this folder, each in a process of its own. */
import { existsSync, mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { cleanEnv, root, run, startNode } from '../node/kit.js'
import type { Test } from 'tap'
import type { TestNode } from '../node/kit.js'

export const MODEL = 'svc/guide'
export const QUESTION = 'how do i stop a model'

/** Where the clients are installed; `npm run test:clients` does that. */
const clients = join(root, 'test/clients/node_modules')
/** Given to a test as `skip`: false, or why. */
export const withoutClients = existsSync(join(clients, 'ai'))
  ? false
  : 'npm run test:clients installs the clients'

/** For a client that wants a newer Node than this one. */
export const needsNode = (major: number): string | false =>
  Number(process.versions.node.split('.')[0]) >= major ? false : `wants Node ${major}`

export async function startClients (t: Test, config: Record<string, unknown> = {}): Promise<TestNode> {
  return await startNode(t, { config, env: { SVC_TEST_HEADROOM_BYTES: '0' } })
}

/** Runs a script that may import the clients; what it printed. Fails the test where it fails. */
export async function script (t: Test, name: string, text: string, args: string[] = []): Promise<string> {
  // Below node_modules, so that imports find what is installed there.
  const folder = join(clients, '.svc')
  mkdirSync(folder, { recursive: true })
  const file = join(folder, `${name}-${process.pid}.mjs`)
  writeFileSync(file, text)
  const child = run(process.execPath, [file, ...args], { env: cleanEnv() as Record<string, string> })
  t.equal(await child.ended, 0, child.stderr())
  return child.stdout()
}
