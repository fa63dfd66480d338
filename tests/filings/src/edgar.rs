//! Full submissions of EDGAR: a header and documents in one file.

/// An HTML page with a bold title and a paragraph.
pub fn html_page(title: &str, text: &str) -> String {
    format!(
        "<html><head><title>x</title></head><body><p><b>{title}</b></p><p>{text}</p></body></html>\n"
    )
}

/// What the header of a submission says about the filing. Dates are `YYYYMMDD`.
#[derive(Debug, Clone, Copy)]
pub struct SubmissionHeader<'a> {
    pub accession: &'a str,
    pub form: &'a str,
    pub period: &'a str,
    pub filed: &'a str,
    pub company: &'a str,
    pub cik: &'a str,
}

impl SubmissionHeader<'_> {
    /// The beginning of the file, before the documents.
    pub fn text(&self) -> String {
        let Self {
            accession,
            form,
            period,
            filed,
            company,
            cik,
        } = self;
        format!(
            "<SEC-DOCUMENT>{accession}.txt : {filed}\n<SEC-HEADER>{accession}.hdr.sgml : {filed}\nACCESSION NUMBER:\t\t{accession}\n\
             CONFORMED SUBMISSION TYPE:\t{form}\nPUBLIC DOCUMENT COUNT:\t\t2\nCONFORMED PERIOD OF REPORT:\t{period}\nFILED AS OF DATE:\t\t{filed}\n\n\
             FILER:\n\n\tCOMPANY DATA:\t\n\t\tCOMPANY CONFORMED NAME:\t\t\t{company}\n\t\tCENTRAL INDEX KEY:\t\t\t{cik}\n\
             \t\tSTANDARD INDUSTRIAL CLASSIFICATION:\tCUTLERY [3420]\n\t\tFISCAL YEAR END:\t\t\t0930\n\n\tFORMER COMPANY:\t\n\
             \t\tFORMER CONFORMED NAME:\tACME IRON WORKS\n</SEC-HEADER>\n"
        )
    }
}

/// One document of a submission, of a type such as `10-K` or `EX-21.1`.
pub fn submission_document(kind: &str, filename: &str, text: &str) -> String {
    format!(
        "<DOCUMENT>\n<TYPE>{kind}\n<SEQUENCE>1\n<FILENAME>{filename}\n<DESCRIPTION>{kind}\n<TEXT>\n{text}\n</TEXT>\n</DOCUMENT>\n"
    )
}
