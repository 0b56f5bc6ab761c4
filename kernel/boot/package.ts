import { existsSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

interface Package { version: string, engines: { node: string } }

let root: string | undefined
let known: Package | undefined

/** Root folder of the svc package: the nearest parent with a package.json, for compiled and source files. */
export function packageRoot (): string {
  if (root !== undefined) return root
  let folder = dirname(fileURLToPath(import.meta.url))
  while (!existsSync(join(folder, 'package.json'))) folder = dirname(folder)
  return root = folder
}

const read = (): Package =>
  known ??= JSON.parse(readFileSync(join(packageRoot(), 'package.json'), 'utf8')) as Package

export const version = (): string => read().version

/** Range of supported Node versions, such as `>=20.19`. */
export const nodeRange = (): string => read().engines.node
