// XMLHttpRequest as far as Strophe needs it, over fetch.

import { DOMParser } from "@xmldom/xmldom";

export class Request {
  readyState = 0;
  status = 0;
  responseText = "";
  responseXML = null;
  #aborted = new AbortController();
  #headers = {};

  open(method, address) {
    this.method = method;
    this.address = address;
    this.readyState = 1;
  }

  setRequestHeader(name, value) {
    this.#headers[name] = value;
  }

  getAllResponseHeaders() {
    return "";
  }

  async send(body) {
    try {
      const { method, address } = this;
      const answer = await fetch(address, { method, body, headers: this.#headers, signal: this.#aborted.signal });
      this.responseText = await answer.text();
      this.responseXML = new DOMParser().parseFromString(this.responseText, "text/xml");
      this.status = answer.status;
    } catch {
      this.status = 0;
    }
    this.readyState = 4;
    this.onreadystatechange?.();
  }

  abort() {
    this.onreadystatechange = null;
    this.#aborted.abort();
  }
}
