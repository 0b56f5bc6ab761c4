/** Counts the tokens of prompts, for programs that neither count nor limit them. */
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { Template } from '@huggingface/jinja'
import { Tokenizer } from '@huggingface/tokenizers'
import type { ModelSpec } from '../../../kernel/api/engine.js'
import { templateIn } from '../cards.js'
import { fieldsOf, isObject, listOf, parsed, textOf, type Fields } from '../../runners/language/json.js'

async function textAt ({ directory, card: { files } }: ModelSpec, path: string): Promise<string> {
  return files.some((file) => file.path === path) ? await readFile(join(directory, path), 'utf8') : ''
}

export class Tokens {
  readonly template: string
  private readonly tokenizer: Tokenizer | null
  private readonly names: Fields
  private rendering: Template | undefined

  private constructor (tokenizer: Tokenizer | null, config: Fields, template: string) {
    this.tokenizer = tokenizer
    this.template = template
    this.names = Object.fromEntries(Object.entries(config).flatMap(([name, value]) => name.endsWith('_token')
      ? [[name, isObject(value) ? textOf(value['content']) : textOf(value)]] : []))
  }

  static async read (spec: ModelSpec): Promise<Tokens> {
    const [text, settings, file] = await Promise.all(
      ['tokenizer.json', 'tokenizer_config.json', 'chat_template.jinja'].map((path) => textAt(spec, path)))
    const config = fieldsOf(parsed(settings!))
    let tokenizer: Tokenizer | null = null
    try {
      tokenizer = text === '' ? null : new Tokenizer(fieldsOf(parsed(text!)), config)
    } catch {
      // The program reads more kinds of tokenizers than svc; without one, svc does not count.
    }
    return new Tokens(tokenizer, config, templateIn(config, file!))
  }

  /** Token ids of a text; null without a tokenizer. */
  encode (text: string, special = true): number[] | null {
    return this.tokenizer?.encode(text, { add_special_tokens: special }).ids ?? null
  }

  decode (ids: number[]): string | null { return this.tokenizer?.decode(ids, {}) ?? null }

  /** Token ids of a request's prompt; null if unknown, such as with images. */
  promptOf ({ prompt, messages, tools, chat_template_kwargs: variables }: Fields): number[] | null {
    if (typeof prompt === 'string') return this.encode(prompt)
    if (Array.isArray(prompt)) return prompt as number[]
    if (this.template === '' || listOf(messages).some(({ content }) => Array.isArray(content))) return null
    try {
      this.rendering ??= new Template(this.template)
      return this.encode(this.rendering.render({
        ...this.names, ...fieldsOf(variables), messages, add_generation_prompt: true,
        ...tools === undefined ? {} : { tools }
      }), false)
    } catch {
      return null
    }
  }
}
