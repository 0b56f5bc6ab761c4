/** Writes the generated models into a cache folder, again whenever the generator's code changes. */
import { createHash } from 'node:crypto'
import { existsSync } from 'node:fs'
import { mkdir, readFile, readdir, rename, rm, writeFile } from 'node:fs/promises'
import { homedir } from 'node:os'
import { join } from 'node:path'
import type { Family } from './families.js'
import { DTYPES, SUFFIXES } from './graph.js'

const cache = process.env['XDG_CACHE_HOME'] ?? join(homedir(), '.cache')

/** The generator's source files, whose hash names the cache folder. */
const SOURCES = ['weights', 'graph', 'encoders', 'texts', 'families', 'make']

async function state (): Promise<string> {
  const here = new URL('.', import.meta.url)
  const hash = createHash('sha256')
  for (const name of SOURCES) hash.update(await readFile(new URL(`${name}.ts`, here)))
  return hash.digest('hex').slice(0, 12)
}

/** Returns the folder for models made by the current generator code; removes those made by earlier code. */
export async function modelsFolder (): Promise<string> {
  const root = join(cache, 'svc-test/onnx')
  await mkdir(root, { recursive: true })
  const name = await state()
  for (const other of await readdir(root)) {
    if (other !== name) await rm(join(root, other), { recursive: true, force: true })
  }
  await mkdir(join(root, name), { recursive: true })
  return join(root, name)
}

/** The folder of a model under `root`; writes the model if it is missing. */
export async function writtenModel (root: string, family: Family): Promise<string> {
  const folder = join(root, 'svc', family.name)
  if (existsSync(folder)) return folder
  const partial = join(root, `${family.name}.partial`)
  await rm(partial, { recursive: true, force: true })
  await mkdir(join(partial, 'onnx'), { recursive: true })
  await mkdir(join(root, 'svc'), { recursive: true })
  for (const dtype of DTYPES) {
    const file = join(partial, 'onnx', `model${SUFFIXES[dtype]}.onnx`)
    await writeFile(file, family.graph(dtype).write(family.opset))
  }
  const files = {
    'tokenizer.json': family.text.tokenizer, 'tokenizer_config.json': family.text.config,
    'config.json': family.config
  }
  for (const [name, json] of Object.entries(files)) await writeFile(join(partial, name), JSON.stringify(json))
  if (family.poolingFile) {
    await mkdir(join(partial, '1_Pooling'))
    const cls = family.pooling === 'cls'
    const pooling = { pooling_mode_cls_token: cls, pooling_mode_mean_tokens: !cls }
    await writeFile(join(partial, '1_Pooling/config.json'), JSON.stringify(pooling))
  }
  await rename(partial, folder)
  return folder
}
