import { existsSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

interface Package { version: string, engines: { node: string } }

let root: string | undefined
let known: Package | undefined

/** The folder of this package: the nearest one above with a package.json, whether compiled or not. */
export function packageRoot (): string {
  if (root !== undefined) return root
  let folder = dirname(fileURLToPath(import.meta.url))
  while (!existsSync(join(folder, 'package.json'))) folder = dirname(folder)
  return root = folder
}

const read = (): Package =>
  known ??= JSON.parse(readFileSync(join(packageRoot(), 'package.json'), 'utf8')) as Package

export const version = (): string => read().version

/** The range of Node versions that svc runs on, such as `>=20.19`. */
export const nodeRange = (): string => read().engines.node
