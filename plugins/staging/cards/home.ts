import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import type { ModelCard } from '../../../kernel/index.js'
import { parseCard } from '../../runners/cards/card.js'
import { checkCardPaths, modelIdProblem } from '../files/names.js'
import { readText } from '../../runners/cards/reader.js'

/** Size limit in bytes, larger than for cards in model folders, since the operator writes these cards. */
const CARD_BYTES = 256 * 1024

/**
 * Reads every `*.yaml` file of a folder, sorted by name; a missing folder counts as empty. `problems` has one
 * sentence for each unusable card. If two cards have the same id, the later one wins.
 */
export async function readHomeCards (folder: string): Promise<{ cards: ModelCard[], problems: string[] }> {
  const cards = new Map<string, ModelCard>()
  const problems: string[] = []
  for (const name of await names(folder, problems)) {
    const path = join(folder, name)
    try {
      const card = checkCardPaths(parseCard(await readText(path, CARD_BYTES, true), path), path)
      const problem = modelIdProblem(card.modelId)
      if (problem !== null) throw new Error(`model card ${path}: modelId: ${problem}`)
      if (cards.has(card.modelId)) {
        problems.push(`model card ${path}: modelId ${card.modelId} is already used by an earlier file`)
      }
      cards.set(card.modelId, card)
    } catch (error) {
      problems.push(sentence((error as Error).message, path))
    }
  }
  return { cards: [...cards.values()], problems }
}

async function names (folder: string, problems: string[]): Promise<string[]> {
  try {
    return (await readdir(folder)).filter((name) => name.endsWith('.yaml')).sort()
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException
    if (code !== 'ENOENT') problems.push(`model cards in ${folder} cannot be read: ${message}`)
    return []
  }
}

function sentence (message: string, path: string): string {
  const line = message.split('\n', 1)[0]!.slice(0, 500)
  return line.includes(path) ? line : `model card ${path}: ${line}`
}
