// Renders a model's Markdown as untrusted input: allows a fixed set of tags, and fetches no resource.
import DOMPurify from 'dompurify'
import { Marked } from 'marked'
import { memo } from 'preact/compat'
import { useLayoutEffect, useMemo, useRef } from 'preact/hooks'
import { copyText } from '../ui/copy.js'
import { failed } from '../ui/toast.js'
import type { Token } from 'marked'

const HARMLESS = /^<\/?(?:br|sub|sup|kbd)\s*\/?>$/i

const marked = new Marked({
  gfm: true, breaks: true,
  renderer: {
    heading ({ tokens }) { return `<p><strong>${this.parser.parseInline(tokens)}</strong></p>` },
    // A remote picture would reveal the user's address to its host, so it becomes a link.
    image ({ href, text }) { return `<a href="${escaped(href)}">${escaped(text === '' ? href : text)}</a>` },
    // Markup in an answer is shown as text, except for a few formatting tags.
    html ({ text }) { return HARMLESS.test(text.trim()) ? text : escaped(text) },
    checkbox ({ checked }) { return checked ? '[x] ' : '[ ] ' }
  }
})

const escaped = (text: string): string =>
  text.replaceAll('&', '&amp;').replaceAll('"', '&quot;').replaceAll('<', '&lt;').replaceAll('>', '&gt;')

const purify = DOMPurify()
purify.addHook('afterSanitizeAttributes', (element) => {
  if (element.tagName !== 'A') return
  element.setAttribute('target', '_blank')
  element.setAttribute('rel', 'noopener noreferrer')
})

const ALLOWED = {
  ALLOWED_TAGS: [
    'p', 'br', 'hr', 'strong', 'em', 'b', 'i', 'del', 's', 'sub', 'sup', 'code', 'pre', 'blockquote', 'ul',
    'ol', 'li', 'a', 'table', 'thead', 'tbody', 'tr', 'th', 'td', 'kbd'
  ],
  ALLOWED_ATTR: ['href', 'title', 'start', 'align'],
  ALLOWED_URI_REGEXP: /^(?:https?:|mailto:)/i,
  ALLOW_DATA_ATTR: false, ALLOW_ARIA_ATTR: false
}

/** Splits text into blocks, of which only the last changes while an answer grows. */
function blocksOf (text: string): Token[] {
  return marked.lexer(text).filter(({ type }) => type !== 'space' && type !== 'def')
}

/** The HTML of one block without active content. */
function safe (block: Token): string { return purify.sanitize(marked.parser([block]), ALLOWED) }

const Block = memo(({ block }: { block: Token }) => {
  const ref = useRef<HTMLDivElement>(null)
  const html = useMemo(() => safe(block), [block.raw])
  useLayoutEffect(() => {
    for (const code of ref.current?.querySelectorAll('pre') ?? []) code.append(copyButton(code))
  }, [html])
  return <div ref={ref} dangerouslySetInnerHTML={{ __html: html }} />
}, (a, b) => a.block.raw === b.block.raw)

function copyButton (code: HTMLElement): HTMLButtonElement {
  const text = code.textContent
  const button = document.createElement('button')
  button.type = 'button'
  button.className = 'button quiet copy-code'
  button.textContent = 'Copy'
  button.addEventListener('click', () => {
    copyText(text).then(() => { button.textContent = 'Copied' }, failed)
  })
  return button
}

export function Markdown ({ text }: { text: string }) {
  const blocks = useMemo(() => blocksOf(text), [text])
  return <div class="markdown">{blocks.map((block, i) => <Block key={i} block={block} />)}</div>
}
